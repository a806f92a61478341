"""The proxy as a whole: what it is made of, how it starts and how it drains."""

import asyncio
import time
from collections.abc import Coroutine
from typing import Any, Final

from pd_proxy import folder
from pd_proxy.access import Access
from pd_proxy.access_log import AccessLog
from pd_proxy.admin import Admin
from pd_proxy.admission import Admission
from pd_proxy.api import Api
from pd_proxy.attempt import Context
from pd_proxy.backends import Backends
from pd_proxy.checker import CHECK_SECONDS, Checker
from pd_proxy.config import Address, Config, ConfigError, Limits
from pd_proxy.deadlines import Deadlines
from pd_proxy.dispatch import Dispatcher
from pd_proxy.follow import Prefillers
from pd_proxy.http.server import Server
from pd_proxy.kv_counters import POLL_SECONDS, KvCounters
from pd_proxy.log import log
from pd_proxy.memory import Memory, limit
from pd_proxy.metrics import Metrics
from pd_proxy.protocols import protocols
from pd_proxy.tls import Tls

LINGER_SECONDS: Final = 3.0
"""So long the port stays open after SIGTERM: not everybody knows yet that it will close."""
_STEP_SECONDS: Final = 0.25
_SWEEP_SECONDS: Final = 0.5
_ADMIN_LIMITS: Final = Limits(body_bytes=65536, header_bytes=65536, connections=64, in_flight=64)


class Proxy:
    """One process's proxy. Make it within a running loop."""

    def __init__(
        self,
        config: Config,
        *,
        drain_seconds: float | None = None,
        linger_seconds: float = LINGER_SECONDS,
        poll_seconds: float = POLL_SECONDS,
        check_seconds: float = CHECK_SECONDS,
        secret_seconds: float = folder.POLL_SECONDS,
    ) -> None:
        self._config = config
        self._drain_seconds = config.timeouts.drain if drain_seconds is None else drain_seconds
        self._linger_seconds = linger_seconds
        timeouts = config.timeouts
        shortest = min(
            timeouts.prefill, timeouts.kv_wait, timeouts.first_token, timeouts.between_tokens
        )
        self._deadlines = Deadlines(min(_STEP_SECONDS, shortest / 4))
        self.metrics = Metrics()
        self.backends = Backends(protocols())
        self._prefillers = Prefillers(self.backends, timeouts.bootstrap)
        context = Context(self.metrics, self._deadlines, time.monotonic)
        self._memory = Memory(limit())
        self.admission = Admission(
            config.queue, self.backends, self.metrics, time.monotonic, self._memory
        )
        dispatcher = Dispatcher(context, self.backends, timeouts, config.routing)
        self._access = None if config.api_keys is None else Access(config.api_keys, secret_seconds)
        self._tls = None if config.tls is None else Tls(config.tls.folder)
        self._secret_seconds = secret_seconds
        self._access_log = AccessLog() if config.access_log else None
        self.api = Api(
            context,
            dispatcher,
            self.admission,
            config,
            access=self._access,
            access_log=self._access_log,
        )
        self._server = Server(
            self.api.handle,
            config.limits,
            self._deadlines,
            on_invalid=self.api.invalid,
            check=self._access.check if self._access else None,
            tls=self._tls.context if self._tls else None,
            overloaded=self.admission.refuse,
        )
        admin = Admin(self.metrics, self.backends, self.not_ready)
        self._admin = Server(admin.handle, _ADMIN_LIMITS, self._deadlines)
        self._counters = KvCounters(
            self.backends, self.metrics, lambda: self.api.last_arrival, time.monotonic, poll_seconds
        )
        self._checker = Checker(self.backends, time.monotonic, check_seconds)
        self._tasks: list[asyncio.Task[None]] = []
        self.broken = asyncio.Event()
        """A part has ended that should not; the process must start anew."""
        self.port = self.admin_port = 0
        """Where it listens, once it does."""

    async def start(self, source: Coroutine[Any, Any, None]) -> None:
        """Listen, and keep the table by `source`; ConfigError where an address cannot be had."""
        self._spawn(source)
        self._spawn(self._counters.run())
        self._spawn(self._checker.run())
        self._spawn(self._sweep())
        if self._access is not None:
            self._spawn(self._access.run())
        if self._tls is not None:
            self._spawn(self._tls.run(self._secret_seconds))
        self.admin_port = await _listen(self._admin, self._config.admin)
        self.port = await _listen(self._server, self._config.listen)
        log("info", "listening", port=self.port, admin=self.admin_port)

    def not_ready(self) -> str | None:
        """Why clients should not be sent here; None where they may."""
        if self._server.draining:
            return "draining"
        if not self.port:
            return "not listening yet"
        if not self.backends.known:
            return "the backends are not known yet"
        if not self.backends.decoders:
            return "no decoder is ready"
        return None

    async def drain(self) -> None:
        """Take no more clients, let requests in flight end, for a limited time; then close."""
        log("info", "draining", in_flight=self.api.in_flight)
        loop = asyncio.get_running_loop()
        end = loop.time() + self._drain_seconds
        self._server.draining = True
        await asyncio.sleep(self._linger_seconds)
        self._server.stop_accepting()
        await self._server.emptied(end - loop.time())
        log("info", "drained", cut=self.api.in_flight)
        await self.close()

    async def close(self) -> None:
        """End everything at once."""
        self._server.close()
        self._admin.close()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._prefillers.close()
        if self._access_log is not None:
            self._access_log.flush()
        self.backends.close()
        self._deadlines.close()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        task.add_done_callback(self._ended)
        self._tasks.append(task)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self.metrics.internal_errors += 1
            log("error", "a part of the proxy has ended", kind=type(error).__name__)
            self.broken.set()

    async def _sweep(self) -> None:
        while True:
            await asyncio.sleep(_SWEEP_SECONDS)
            self._memory.look()
            self.admission.tick()
            for backend in self.backends.all():
                backend.pool.sweep()


async def _listen(server: Server, address: Address) -> int:
    try:
        return await server.listen(address.host, address.port)
    except OSError as error:
        raise ConfigError(
            f"cannot listen on {address.host or '*'}:{address.port}: {error.strerror}"
        ) from error
