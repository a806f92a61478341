"""One request of a client, and the answer to it."""

from collections.abc import Callable
from http import HTTPStatus
from typing import Final, Protocol

from pd_proxy.errors import JSON, ProxyError
from pd_proxy.http.request import Request

STATUS_LINES: Final = {s.value: f"HTTP/1.1 {s.value} {s.phrase}\r\n".encode() for s in HTTPStatus}
CLOSE: Final = b"connection: close\r\n"
_CHUNKED: Final = b"transfer-encoding: chunked\r\n"


class Wire(Protocol):
    """The client's connection."""

    write_paused: bool

    @property
    def draining(self) -> bool:
        """Whether this is the connection's last answer."""

    @property
    def peer(self) -> str:
        """The client's address."""

    def write(self, data: bytes) -> None:
        """Send to the client."""

    def abort(self) -> None:
        """Close at once."""

    def answered(self, keep_alive: bool) -> None:
        """The current call has its answer."""


class Flow(Protocol):
    """Where an answer comes from; it waits while the client does not read."""

    def pause(self) -> None:
        """Send no more for now."""

    def resume(self) -> None:
        """Go on."""


class Call:
    """One request and its answer. After the client is gone all methods do nothing."""

    __slots__ = (
        "_chunked",
        "_connection",
        "flow",
        "on_gone",
        "peer_name",
        "request",
        "started",
        "status",
    )

    def __init__(self, connection: Wire, request: Request) -> None:
        self._connection: Wire | None = connection
        self.request = request
        self.on_gone: Callable[[], object] | None = None
        """Called when the client leaves before the answer's end."""
        self.flow: Flow | None = None
        self.started = False
        self.status = 0
        """The answer's, once it has begun."""
        self.peer_name: str | None = None
        """The client's address, for those who tell of it later."""
        self._chunked = False

    @property
    def peer(self) -> str:
        """The client's address; empty once it is gone."""
        return self._connection.peer if self._connection is not None else ""

    def respond(self, status: int, head: bytes, body: bytes) -> None:
        """The whole answer; `head` are header lines, each with its CRLF."""
        connection = self._connection
        if connection is None:
            return
        self.started = True
        self.status = status
        framing = b"content-length: %d\r\n" % len(body)
        if self.request.method == b"HEAD":
            body = b""
        connection.write(self._head(status, head, framing) + body)
        self._done()

    def respond_error(self, error: ProxyError, head: bytes = b"") -> None:
        """An error of the proxy's own."""
        self.respond(error.status, JSON + error.headers + head, error.body())

    def start(self, status: int, head: bytes, data: bytes) -> None:
        """Begin an answer whose length is not known, with its first part."""
        connection = self._connection
        if connection is None:
            return
        self.started = True
        self.status = status
        self._chunked = self.request.chunked_ok
        if not self._chunked:
            self.request.keep_alive = False
        framing = _CHUNKED if self._chunked else b""
        connection.write(self._head(status, head, framing))
        if connection.write_paused and self.flow is not None:
            self.flow.pause()
        self.write(data)

    def write(self, data: bytes) -> None:
        """The next part, not empty."""
        connection = self._connection
        if connection is not None:
            connection.write(b"%x\r\n%b\r\n" % (len(data), data) if self._chunked else data)

    @property
    def chunked(self) -> bool:
        """Whether the answer goes out in chunks."""
        return self._chunked

    def write_chunks(self, chunks: bytes) -> None:
        """The next parts within their framing; only where the answer is chunked."""
        connection = self._connection
        if connection is not None:
            connection.write(chunks)

    def finish(self) -> None:
        """The answer's end."""
        connection = self._connection
        if connection is None:
            return
        if self._chunked:
            connection.write(b"0\r\n\r\n")
        self._done()

    def abort(self) -> None:
        """Break the connection, so that the client sees that the answer is not whole."""
        connection, self._connection = self._connection, None
        self._forget()
        if connection is not None:
            connection.abort()

    def gone(self) -> None:
        """The client has left."""
        self._connection = None
        on_gone = self.on_gone
        self._forget()
        if on_gone is not None:
            on_gone()

    def _forget(self) -> None:
        """Let go of those who hold this call: what is in a cycle stays until it is collected."""
        self.on_gone = self.flow = None

    def _head(self, status: int, head: bytes, framing: bytes) -> bytes:
        line = STATUS_LINES.get(status) or b"HTTP/1.1 %d Status\r\n" % status
        connection = self._connection
        if self.request.keep_alive and connection is not None and not connection.draining:
            return b"%b%b%b\r\n" % (line, head, framing)
        self.request.keep_alive = False
        return b"%b%b%b%b\r\n" % (line, head, framing, CLOSE)

    def _done(self) -> None:
        connection, self._connection = self._connection, None
        self._forget()
        if connection is not None:
            connection.answered(self.request.keep_alive)
