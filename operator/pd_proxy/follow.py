"""What must be known of each prefiller before it is used, kept up to date."""

import asyncio
from typing import Final

from pd_proxy.backends import Backend, Backends, Engine
from pd_proxy.http.fetch import FetchError
from pd_proxy.log import log

REFRESH_SECONDS: Final = 10.0
"""A restart that neither the watch nor a broken connection told of is seen after so long."""
_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 2.0


class Prefillers:
    """Follows each prefiller for as long as it is known; `seconds` is the limit of a question."""

    def __init__(self, backends: Backends, seconds: float) -> None:
        self._backends = backends
        self._seconds = seconds
        self._tasks: dict[Backend, asyncio.Task[None]] = {}
        backends.on_new.append(self._come)
        backends.on_gone.append(self._go)

    def close(self) -> None:
        """Follow none any more."""
        for task in self._tasks.values():
            task.cancel()

    def _come(self, backend: Backend) -> None:
        if backend.prefills:
            self._tasks[backend] = asyncio.create_task(self._follow(backend))

    def _go(self, backend: Backend) -> None:
        if task := self._tasks.pop(backend, None):
            task.cancel()

    async def _follow(self, backend: Backend) -> None:
        protocol = backend.protocol
        pause = _FIRST_PAUSE
        while protocol is not None:
            backend.engines_doubted.clear()
            try:
                engines = await protocol.learn(backend, self._seconds)
            except FetchError as error:
                if backend.engines:
                    log("warning", "prefiller unreachable", pod=backend.pod.name, error=str(error))
                backend.engines_known.clear()
                backend.unreachable = True
                backend.engines_asked.set()
                await asyncio.sleep(pause)
                pause = min(_LONGEST_PAUSE, pause * 2)
                continue
            pause = _FIRST_PAUSE
            self._learn(backend, engines)
            await _wait(backend.engines_doubted, REFRESH_SECONDS)

    def _learn(self, backend: Backend, engines: tuple[Engine, ...]) -> None:
        if backend.engines not in ((), engines):
            log("info", "prefiller restarted", pod=backend.pod.name)
            backend.engines = engines
            for hear in self._backends.on_restart:
                hear(backend)
            backend.interrupt()
        backend.engines = engines
        backend.unreachable = False
        if not backend.engines_doubted.is_set() and not backend.engines_known.is_set():
            backend.engines_known.set()
            backend.engines_asked.set()
            self._backends.wake()


async def known(prefiller: Backend, seconds: float) -> bool:
    """Whether a prefiller can be used, once what must be known of it is known, at most so long.

    One that could not tell when it was asked last is not waited for.
    """
    if not prefiller.engines_known.is_set() and not prefiller.unreachable:
        await _wait(prefiller.engines_asked, seconds)
    return prefiller.engines_known.is_set()


async def _wait(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        pass
