"""The server side: client connections, and the calls that are answered on them."""

import asyncio
import contextlib
import ssl
from collections import deque
from collections.abc import Callable
from typing import Final, cast

from pd_proxy.config import Limits
from pd_proxy.deadlines import NEVER, Deadlines
from pd_proxy.errors import JSON, ProxyError, overloaded
from pd_proxy.http.call import CLOSE, STATUS_LINES, Call
from pd_proxy.http.reader import Check, Reader
from pd_proxy.http.request import Request

HEAD_SECONDS: Final = 30.0
"""For a request's head, from its first byte."""
BODY_SECONDS: Final = 60.0
"""For a request's body, between two reads."""
IDLE_SECONDS: Final = 120.0
"""A connection without a request."""
STALL_SECONDS: Final = 120.0
"""A client that reads nothing of what it is sent."""
HANDSHAKE_SECONDS: Final = 10.0
"""For a TLS handshake."""
LINGER_SECONDS: Final = 2.0
"""After a refusal: so long may a client go on sending before the connection closes."""

BODIES_BYTES: Final = 128 * 1024 * 1024
"""Bodies of all clients together; each is held up to four times on its way to the engines."""
_SMALL_BYTES: Final = 65536
"""A client that holds less is not counted."""

_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"


class Connection(asyncio.Protocol):
    """One client; its calls are answered in the order of its requests."""

    def __init__(self, server: "Server") -> None:
        self._server = server
        limits = server.limits
        self._reader = Reader(self._ready, limits.header_bytes, limits.body_bytes, server.check)
        self._transport: asyncio.Transport | None = None
        self._queue: deque[Request | ProxyError] = deque()
        self._current: Call | None = None
        self._pumping = False
        self._closing = False
        self._reading = True
        self._held = 0
        self.write_paused = False
        self.deadline = NEVER

    @property
    def draining(self) -> bool:
        """Whether this is the connection's last answer."""
        return self._server.draining

    @property
    def peer(self) -> str:
        """The client's address."""
        name = self._transport.get_extra_info("peername") if self._transport else None
        return str(name[0]) if isinstance(name, tuple) else ""

    @property
    def idle(self) -> bool:
        """Whether there is neither a request nor a part of one."""
        return self._current is None and not self._queue and not self._reader.in_message

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.Protocol."""
        self._transport = cast("asyncio.Transport", transport)
        server = self._server
        server.connections.add(self)
        server.deadlines.add(self)
        self.deadline = server.now() + IDLE_SECONDS
        if len(server.connections) > server.limits.connections:
            message = "too many connections; come again in a moment"
            self._refuse(server.overloaded("connections", message))

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""
        self._transport = None
        self._closing = True
        self._queue.clear()
        self._server.held -= self._held
        self._server.leave(self)
        self._server.deadlines.discard(self)
        call, self._current = self._current, None
        if call is not None:
            call.gone()

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol."""
        if self._closing:
            return  # what a refused client still sends
        reader = self._reader
        error = reader.feed(data)
        if error is not None:
            self._queue.append(error)
            self._closing = True
            self._pump()
            return
        if reader.body_size > _SMALL_BYTES and not self._has_room():
            self._queue.append(self._no_room())
            self._closing = True
            self._pump()
        elif self._current is not None:
            if self._queue:
                self._stop_reading()
        elif reader.in_message:
            if not reader.in_head:
                self.deadline = self._server.now() + BODY_SECONDS
            elif self.deadline > (limit := self._server.now() + HEAD_SECONDS):
                self.deadline = limit
        if reader.expects and self._current is None:
            reader.expects = False
            self.write(_CONTINUE)

    def pause_writing(self) -> None:
        """See asyncio.Protocol."""
        self.write_paused = True
        self.deadline = self._server.now() + STALL_SECONDS
        if self._current is not None and self._current.flow is not None:
            self._current.flow.pause()

    def resume_writing(self) -> None:
        """See asyncio.Protocol."""
        self.write_paused = False
        self.deadline = self._server.now() + IDLE_SECONDS if self._current is None else NEVER
        if self._current is not None and self._current.flow is not None:
            self._current.flow.resume()

    def expired(self) -> None:
        """A deadline of this client has passed."""
        if self._closing or self.write_paused or self.idle:
            self.abort()
        else:
            self._refuse(ProxyError(408, "the request did not arrive in time"))

    def write(self, data: bytes) -> None:
        """Send to the client."""
        if self._transport is not None:
            self._transport.write(data)

    def close(self) -> None:
        """Close after what was written has been sent."""
        self._closing = True
        if self._transport is not None:
            self._transport.close()
            self.deadline = self._server.now() + STALL_SECONDS

    def abort(self) -> None:
        """Close at once."""
        if self._transport is not None:
            self._transport.abort()

    def answered(self, keep_alive: bool) -> None:
        """The current call has its answer."""
        self._current = None
        if self._held:
            self._has_room()
        if not keep_alive or self._server.closing:
            self._queue.clear()
            self.close()
            return
        if not self.write_paused:
            self.deadline = self._server.now() + IDLE_SECONDS
        if self._queue:
            self._pump()
        if not self._queue and not self._reading and self._transport is not None:
            self._reading = True
            self._transport.resume_reading()

    def _has_room(self) -> bool:
        """Count what this client holds; whether all together hold no more than they may."""
        held = self._reader.body_size
        if self._current is not None:
            held += len(self._current.request.body)
        held += sum(len(item.body) for item in self._queue if isinstance(item, Request))
        self._server.held += held - self._held
        self._held = held
        return self._server.held <= self._server.bodies_bytes

    def _ready(self, request: Request) -> None:
        if self._closing:
            return
        self._queue.append(request)
        if len(request.body) > _SMALL_BYTES and not self._has_room():
            self._queue[-1] = self._no_room()
            self._closing = True
        if self._current is None:
            self._pump()

    def _pump(self) -> None:
        if self._pumping:
            return
        self._pumping = True
        try:
            while self._queue and self._current is None:
                item = self._queue.popleft()
                if isinstance(item, ProxyError):
                    self._refuse(item)
                else:
                    self._current = call = Call(self, item)
                    if not self.write_paused:
                        self.deadline = NEVER
                    self._server.handler(call)
        finally:
            self._pumping = False

    def _refuse(self, error: ProxyError) -> None:
        """Answer, then let the client end its sending before the connection closes.

        Closing with unread bytes would reset the connection, and the answer might be lost.
        """
        self._closing = True
        self._server.on_invalid(error)
        body = error.body()
        head = JSON + error.headers + b"content-length: %d\r\n" % len(body)
        self.write(STATUS_LINES[error.status] + head + CLOSE + b"\r\n" + body)
        self.deadline = self._server.now() + LINGER_SECONDS
        if self._transport is not None and self._transport.can_write_eof():
            self._transport.write_eof()

    def _no_room(self) -> ProxyError:
        message = "too many large requests; come again in a moment"
        return self._server.overloaded("bodies", message)

    def _stop_reading(self) -> None:
        if self._reading and self._transport is not None:
            self._reading = False
            self._transport.pause_reading()


class Server:
    """A listening address, its connections and the handler of their calls.

    The handler must not raise; it answers the call now or later. `on_invalid` hears of what
    was refused before there was a call; `overloaded` words what is refused for want of room,
    `check` says who may come in.
    """

    def __init__(
        self,
        handler: Callable[[Call], None],
        limits: Limits,
        deadlines: Deadlines,
        *,
        on_invalid: Callable[[ProxyError], None] = lambda _: None,
        check: Check | None = None,
        tls: ssl.SSLContext | None = None,
        overloaded: Callable[[str, str], ProxyError] = lambda _, message: overloaded(message),
    ) -> None:
        self.handler = handler
        self.limits = limits
        self.deadlines = deadlines
        self.on_invalid = on_invalid
        self.overloaded = overloaded
        self.check = check
        self._tls = tls
        self.draining = False
        """Whether each answer says that it is the last on its connection."""
        self.closing = False
        self.held = 0
        """Bytes of large bodies in memory."""
        self.bodies_bytes = BODIES_BYTES
        self.connections: set[Connection] = set()
        self._empty = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        self.now = self._loop.time
        self._server: asyncio.Server | None = None

    async def listen(self, host: str, port: int) -> int:
        """Accept clients; returns the port. OSError where the address cannot be had."""
        self._server = await self._loop.create_server(
            lambda: Connection(self),
            host or None,
            port,
            backlog=1024,
            reuse_address=True,
            ssl=self._tls,
            ssl_handshake_timeout=HANDSHAKE_SECONDS if self._tls else None,
        )
        found: int = self._server.sockets[0].getsockname()[1]
        return found

    def stop_accepting(self) -> None:
        """Accept no more clients, and close each as soon as it has no request."""
        self.closing = True
        if self._server is not None:
            self._server.close()
            self._server = None
        for connection in [c for c in self.connections if c.idle]:
            connection.close()

    def leave(self, connection: Connection) -> None:
        """A client has gone."""
        self.connections.discard(connection)
        if not self.connections:
            self._empty.set()

    async def emptied(self, seconds: float) -> None:
        """Wait until there is no client any more, at most so long."""
        self._empty.clear()
        if self.connections:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._empty.wait()

    def close(self) -> None:
        """End everything at once."""
        self.stop_accepting()
        for connection in list(self.connections):
            connection.abort()
