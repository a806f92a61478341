"""Engine ids of prefillers, from the bootstrap server of each."""

import asyncio
from typing import Final

import orjson

from pd_proxy.backends import Backend, Backends, Engine
from pd_proxy.http.fetch import FetchError, fetch
from pd_proxy.http.upstream import Pool
from pd_proxy.log import log
from pd_shared import labels

REFRESH_SECONDS: Final = 10.0
"""A restart that neither the watch nor a broken connection told of is seen after so long."""
_FIRST_PAUSE: Final = 0.1
_LONGEST_PAUSE: Final = 2.0


class Bootstrap:
    """Follows each prefiller for as long as it is known."""

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
        if backend.pod.tier == labels.PREFILLER:
            self._tasks[backend] = asyncio.create_task(self._follow(backend))

    def _go(self, backend: Backend) -> None:
        if task := self._tasks.pop(backend, None):
            task.cancel()

    async def _follow(self, backend: Backend) -> None:
        pool = Pool(backend.pod.host, backend.pod.bootstrap_port, _nothing)
        pause = _FIRST_PAUSE
        try:
            while True:
                backend.engines_doubted.clear()
                try:
                    engines = read_engines(await fetch(pool, "/query", self._seconds))
                except FetchError as error:
                    if backend.engines:
                        log(
                            "warning",
                            "bootstrap unreachable",
                            pod=backend.pod.name,
                            error=str(error),
                        )
                    backend.engines_known.clear()
                    await asyncio.sleep(pause)
                    pause = min(_LONGEST_PAUSE, pause * 2)
                    continue
                pause = _FIRST_PAUSE
                self._learn(backend, engines)
                await _wait(backend.engines_doubted, REFRESH_SECONDS)
        finally:
            pool.close()

    def _learn(self, backend: Backend, engines: tuple[Engine, ...]) -> None:
        if backend.engines not in ((), engines):
            log("info", "prefiller restarted", pod=backend.pod.name)
            backend.engines = engines
            backend.interrupt()
        backend.engines = engines
        if not backend.engines_doubted.is_set() and not backend.engines_known.is_set():
            backend.engines_known.set()
            self._backends.wake()


def read_engines(answer: bytes) -> tuple[Engine, ...]:
    """The ranks in a bootstrap server's answer; FetchError where it makes no sense."""
    try:
        value = orjson.loads(answer)
        engines = tuple(
            Engine(int(rank), str(entry["engine_id"])) for rank, entry in sorted(value.items())
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        raise FetchError("the bootstrap server's answer is not understood") from None
    if not engines:
        raise FetchError("no engine has registered yet")
    return engines


def _nothing() -> None:
    pass


async def _wait(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        pass
