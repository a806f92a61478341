"""Asks each engine for its health: one that hangs is noticed before a request's deadline is."""

import asyncio
from collections.abc import Callable
from typing import Final

from pd_proxy.backends import READY, Backend, Backends
from pd_proxy.http.fetch import FetchError, fetch
from pd_proxy.log import log

CHECK_SECONDS: Final = 5.0
"""Between two questions, and for an answer: vLLM's may wait for a long prompt's tokenization."""
MISSES: Final = 3
"""So many in a row, and what the engine has not begun to answer goes elsewhere."""


class Checker:
    """Asks every ready backend for `/health`, for as long as it is known."""

    def __init__(
        self, backends: Backends, now: Callable[[], float], seconds: float = CHECK_SECONDS
    ) -> None:
        self._backends = backends
        self._now = now
        self._seconds = seconds
        self._misses: dict[Backend, int] = {}
        backends.on_gone.append(self._forget)

    async def run(self) -> None:
        """Ask until cancelled."""
        while True:
            await asyncio.sleep(self._seconds)
            ready = [b for b in self._backends.all() if b.pod.state == READY]
            await asyncio.gather(*(self._ask(backend) for backend in ready))

    async def _ask(self, backend: Backend) -> None:
        try:
            await fetch(backend.pool, "/health", self._seconds)
        except FetchError as error:
            misses = self._misses[backend] = self._misses.get(backend, 0) + 1
            if misses == MISSES:
                log("warning", "engine unhealthy", pod=backend.pod.name, error=str(error))
            if misses >= MISSES:
                now = self._now()
                backend.down = True
                backend.failed(now)
                backend.hold(now + 2 * self._seconds)
                backend.doubt()
        else:
            backend.down = False
            if self._misses.pop(backend, 0) >= MISSES:
                log("info", "engine healthy again", pod=backend.pod.name)

    def _forget(self, backend: Backend) -> None:
        self._misses.pop(backend, None)
