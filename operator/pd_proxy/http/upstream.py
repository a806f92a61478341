"""The client side: kept-open connections to one engine, one exchange at a time on each."""

import asyncio
import ipaddress
from collections.abc import Callable
from typing import Final, Protocol, cast

import httptools

from pd_proxy.http.headers import Headers

IDLE_SECONDS: Final = 4.0
"""vLLM closes an idle connection after 5 s; a request must not meet that moment."""


Parts = list[tuple[int, int]]
"""Where parts begin and end."""

_SIZES: Final = {b"%x" % size: size for size in range(1, 4096)}
"""By a chunk's size line: of the chunks that an event usually comes in."""
_SIZE_DIGITS: Final = 3

_JOINED_BYTES: Final = 65536
"""A longer body is not copied to stand behind its head."""


class Listener(Protocol):
    """Who hears the answer: on_head once, on_body and on_chunks any number of times, then on_end.

    on_lost takes the place of all that has not come yet.
    """

    def on_head(self, status: int, headers: Headers) -> None:
        """Status and header lines are there."""

    def on_body(self, data: bytes) -> None:
        """A part of the body, never empty."""

    def on_chunks(self, chunks: bytes, parts: Parts) -> None:
        """Parts of the body, each a whole chunk with its framing around it."""

    def on_end(self) -> None:
        """The answer is complete."""

    def on_lost(self, reason: str) -> None:
        """The connection broke, or what came was not HTTP."""


class Upstream(asyncio.Protocol):
    """A connection to an engine."""

    __slots__ = (
        "_between",
        "_chunk_over",
        "_framed",
        "_head_done",
        "_headers",
        "_listener",
        "_parser",
        "_paused",
        "_pool",
        "_status",
        "_transport",
        "idle_since",
    )

    def __init__(self, pool: "Pool") -> None:
        self._pool = pool
        self._transport: asyncio.Transport | None = None
        self._listener: Listener | None = None
        self._parser = httptools.HttpResponseParser(self)
        self._headers: Headers = []
        self._status = 0
        self._head_done = False
        self._framed = False
        self._chunk_over = self._between = False
        self._paused = False
        self.idle_since = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """See asyncio.Protocol."""
        self._transport = cast("asyncio.Transport", transport)

    def send(self, listener: Listener, head: bytes, body: bytes) -> None:
        """Send a request; its answer goes to the listener."""
        self._listener = listener
        self._headers = []
        self._head_done = self._framed = False
        self._chunk_over = self._between = False
        if self._transport is None:
            self._fail("connection_lost")
        elif len(body) < _JOINED_BYTES:
            self._transport.write(head + body)
        else:
            self._transport.writelines((head, body))

    def abort(self) -> None:
        """End the exchange, if any, by closing the connection; the listener hears no more."""
        self._listener = None
        if self._transport is not None:
            self._transport.abort()

    def pause(self) -> None:
        """Read no more until resume(), or until the exchange ends."""
        if not self._paused and self.usable and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()

    def resume(self) -> None:
        """Read again."""
        if self._paused:
            self._paused = False
            if self.usable and self._transport is not None:
                self._transport.resume_reading()

    @property
    def usable(self) -> bool:
        """Whether a request could be sent."""
        return self._transport is not None and not self._transport.is_closing()

    # Callbacks of the loop and the parser.

    def data_received(self, data: bytes) -> None:
        """See asyncio.Protocol."""
        if self._listener is None:
            self.abort()
            return
        if self._between:
            # Between two chunks the parser has no state: it need not see those that are whole.
            over = self._whole_chunks(data)
            if over == len(data):
                return
            if over:
                data = data[over:]
        try:
            self._parser.feed_data(data)
            self._between = self._chunk_over and data.endswith(b"\r\n")
        except (httptools.HttpParserError, httptools.HttpParserUpgrade) as error:
            self._fail("invalid_response")
            # A listener's own error is a bug; it must not pass for the engine's.
            if isinstance(error, httptools.HttpParserCallbackError) and error.__context__:
                raise error.__context__ from None

    def _whole_chunks(self, data: bytes) -> int:
        """Pass on the whole chunks at the beginning; returns where they end.

        Most of a stream is one event in one chunk in one read; the parser costs thrice as much.
        """
        over, length = 0, len(data)
        parts: Parts = []
        while over < length:
            start = data.find(b"\r\n", over, over + _SIZE_DIGITS + 2) + 2
            size = _SIZES.get(data[over : start - 2]) if start > over + 2 else None
            if size is None:
                break
            end = start + size + 2
            if end > length or data[end - 2 : end] != b"\r\n":
                break
            parts.append((start, end - 2))
            over = end
        if parts and self._listener is not None:
            self._listener.on_chunks(data if over == length else data[:over], parts)
            if self._listener is None:
                return length  # it has ended the exchange
        return over

    def connection_lost(self, exc: Exception | None) -> None:
        """See asyncio.Protocol."""
        self._transport = None
        if self._listener is None:
            self._pool.lost(self)
        elif exc is None and self._head_done and not self._framed:
            self._finish(keep=False)
        else:
            self._fail("connection_lost")

    def on_header(self, name: bytes, value: bytes) -> None:
        """See httptools."""
        if not self._head_done:
            self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """See httptools."""
        status = self._parser.get_status_code()
        if status < 200:
            self._headers = []
            return
        self._status = status
        self._head_done = True
        self._framed = status in (204, 304) or any(
            name in (b"content-length", b"transfer-encoding") for name, _ in self._headers
        )
        if self._listener is not None:
            self._listener.on_head(status, self._headers)

    def on_body(self, data: bytes) -> None:
        """See httptools."""
        if self._listener is not None:
            self._listener.on_body(data)

    def on_chunk_header(self) -> None:
        """See httptools."""
        self._chunk_over = False

    def on_chunk_complete(self) -> None:
        """See httptools."""
        self._chunk_over = True

    def on_message_complete(self) -> None:
        """See httptools."""
        self._chunk_over = False
        if self._head_done and self._listener is not None:
            self._finish(keep=self._parser.should_keep_alive())

    def _finish(self, keep: bool) -> None:
        listener, self._listener = self._listener, None
        self.resume()  # the client may have stopped reading at the very end
        if keep:
            self._pool.give_back(self)
        elif self._transport is not None:
            self._transport.close()
        if listener is not None:
            listener.on_end()

    def _fail(self, reason: str) -> None:
        listener = self._listener
        self.abort()
        if listener is not None:
            listener.on_lost(reason)


class Pool:
    """The connections to one address, the most recently used first."""

    def __init__(self, host: str, port: int, on_idle_lost: Callable[[], None]) -> None:
        self.host = host
        self.port = port
        self.authority = authority(host, port)
        self.host_line = b"host: %b\r\n" % self.authority.encode()
        self._on_idle_lost = on_idle_lost
        self._idle: list[Upstream] = []
        self._loop = asyncio.get_running_loop()
        self._closed = False

    def take(self) -> Upstream | None:
        """An idle connection that the engine still keeps open."""
        oldest = self._loop.time() - IDLE_SECONDS
        while self._idle:
            upstream = self._idle.pop()
            if upstream.usable and upstream.idle_since > oldest:
                return upstream
            upstream.abort()
        return None

    async def connect(self, seconds: float) -> Upstream:
        """A new connection; OSError or TimeoutError where there is none within that time."""
        async with asyncio.timeout(seconds):
            _, upstream = await self._loop.create_connection(
                lambda: Upstream(self), self.host, self.port
            )
        return upstream

    def give_back(self, upstream: Upstream) -> None:
        """The connection has no exchange any more."""
        if self._closed:
            upstream.abort()
            return
        upstream.idle_since = self._loop.time()
        self._idle.append(upstream)

    def lost(self, upstream: Upstream) -> None:
        """A connection without an exchange is gone."""
        if upstream in self._idle:
            self._idle.remove(upstream)
            self._on_idle_lost()

    def sweep(self) -> None:
        """Close connections that were idle for too long."""
        oldest = self._loop.time() - IDLE_SECONDS
        while self._idle and self._idle[0].idle_since <= oldest:
            self._idle.pop(0).abort()

    def close(self) -> None:
        """Close what is idle, now and later."""
        self._closed = True
        while self._idle:
            self._idle.pop().abort()


def authority(host: str, port: int) -> str:
    """`host:port` as in a URL: an IPv6 address gets its brackets."""
    try:
        if ipaddress.ip_address(host).version == 6:
            return f"[{host}]:{port}"
    except ValueError:
        pass
    return f"{host}:{port}"
