"""From a client's bytes to requests, strictly: what two parsers could read differently is refused.

llhttp refuses by itself: Content-Length beside Transfer-Encoding, several Content-Lengths, bad
chunks, folded header lines, spaces before the colon, line ends other than CRLF.
"""

from collections.abc import Callable
from typing import Final

import httptools

from pd_proxy.errors import ProxyError
from pd_proxy.http.headers import Headers, find
from pd_proxy.http.request import Request

_CHUNK_OVERHEAD: Final = 16
"""Bytes around a byte of body that chunks may cost; more is an attack by tiny chunks."""

Check = Callable[[bytes, bytes, Headers], str | ProxyError]
"""Method, path and headers of a request, before its body: whose it is, or why it is refused."""


class _Stop(Exception):  # noqa: N818 - no error: it leaves the parser
    """The message is refused."""


class Reader:
    """Parses one connection's bytes; calls `ready` for each request.

    `feed` returns the error that ends the connection, if any. `expects` is True while the client
    waits for `100 Continue` before it sends the body. `body_size` are the bytes of a body that is
    not complete. `check` says who may come in.
    """

    def __init__(
        self,
        ready: Callable[[Request], None],
        header_bytes: int,
        body_bytes: int,
        check: Check | None = None,
    ) -> None:
        self._ready = ready
        self._check = check
        self._header_limit = header_bytes
        self._body_limit = body_bytes
        self._parser = httptools.HttpRequestParser(self)
        self._error: ProxyError | None = None
        self._upgrade = False
        self._resumed = False
        self._fed = 0  # bytes of this message
        self.expects = False
        self.in_message = False
        self.in_head = False
        self._reset()

    def _reset(self) -> None:
        self._url = b""
        self._headers: Headers = []
        self._head_size = 0
        self._tenant = ""
        self._first = b""
        self._more: list[bytes] | None = None
        self.body_size = 0

    def feed(self, data: bytes) -> ProxyError | None:
        """Parse more bytes; the error must be answered and the connection closed."""
        if self._error is not None:
            return self._error
        self._fed += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            return self._without_upgrade(data[upgrade.args[0] :])
        except httptools.HttpParserError as error:
            if self._error is None:
                self._error = _bad(f"the request is not valid HTTP/1.1: {error}")
            return self._error
        if self.in_head and self._fed > self._header_limit:
            self._error = _header_error(self._header_limit)
        elif self.in_message and not self.in_head:
            spent = self._fed - self.body_size
            if spent > 2 * self._header_limit + _CHUNK_OVERHEAD * self.body_size:
                self._error = _bad("the chunks carry too little for what they cost")
        return self._error

    def _without_upgrade(self, rest: bytes) -> ProxyError | None:
        """Go on as if the client had not offered another protocol (such as h2c)."""
        if not self._upgrade:  # CONNECT
            self._error = ProxyError(405, "CONNECT is not served here", b"allow: GET, POST\r\n")
            return self._error
        self._upgrade = False
        self._resumed = True
        self._parser = httptools.HttpRequestParser(self)
        length = find(self._headers, b"content-length")
        framing = (
            b"content-length: " + length
            if length is not None
            else b"transfer-encoding: chunked"
            if find(self._headers, b"transfer-encoding")
            else b"content-length: 0"
        )
        return self.feed(b"POST / HTTP/1.1\r\n" + framing + b"\r\n\r\n" + rest)

    # Callbacks of the parser.

    def on_message_begin(self) -> None:
        """See httptools."""
        self.in_message = self.in_head = True
        if not self._resumed:
            self._reset()

    def on_url(self, url: bytes) -> None:
        """See httptools."""
        if not self._resumed:
            self._url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """See httptools."""
        if not self.in_head or self._resumed:
            return  # a trailer, which no engine needs; or the head that was seen already
        self._head_size += len(name) + len(value) + 4
        self._headers.append((name.lower(), value))

    def on_headers_complete(self) -> None:
        """See httptools."""
        self.in_head = False
        if self._resumed:
            return
        if self._head_size + len(self._url) > self._header_limit:
            self._stop(_header_error(self._header_limit))
        self._method = self._parser.get_method()
        version = self._parser.get_http_version()
        if version not in ("1.1", "1.0"):
            self._stop(_bad(f"HTTP/{version} is not served here"))
        self._version_11 = version == "1.1"
        self._keep_alive = self._version_11 and self._parser.should_keep_alive()
        self._upgrade = self._parser.should_upgrade() and self._method != b"CONNECT"
        self._check_headers()

    def _check_headers(self) -> None:
        hosts = 0
        for name, value in self._headers:
            if name == b"host":
                hosts += 1
            elif name == b"content-length":
                if int(value) > self._body_limit:
                    self._stop(_body_error(self._body_limit))
            elif name == b"transfer-encoding":
                if value.strip().lower() != b"chunked" or not self._version_11:
                    self._stop(_bad("the only Transfer-Encoding served here is chunked"))
            elif name == b"expect":
                self.expects = self._version_11 and value.lower() == b"100-continue"
        if hosts > 1 or (hosts == 0 and self._version_11):
            self._stop(_bad("the request must have exactly one Host header"))
        if self._check is not None:
            found = self._check(self._method, self._url.partition(b"?")[0], self._headers)
            if isinstance(found, ProxyError):
                self._stop(found)
            else:
                self._tenant = found

    def on_body(self, data: bytes) -> None:
        """See httptools."""
        self.body_size += len(data)
        if self.body_size > self._body_limit:
            self._stop(_body_error(self._body_limit))
        if self._more is not None:
            self._more.append(data)
        elif self._first:
            self._more = [self._first, data]
        else:
            self._first = data

    def on_message_complete(self) -> None:
        """See httptools."""
        if self._upgrade:
            return  # the body is still to come
        self.in_message = self._resumed = self.expects = False
        self._fed = self.body_size = 0
        body = self._first if self._more is None else b"".join(self._more)
        self._first, self._more = b"", None
        self._ready(
            Request(
                self._method,
                self._url,
                self._url.partition(b"?")[0],
                self._headers,
                body,
                self._keep_alive,
                self._version_11,
                self._tenant,
            )
        )

    def _stop(self, error: ProxyError) -> None:
        self._error = error
        raise _Stop


def _bad(message: str) -> ProxyError:
    return ProxyError(400, message)


def _header_error(limit: int) -> ProxyError:
    return ProxyError(431, f"the request's head is longer than {limit} bytes")


def _body_error(limit: int) -> ProxyError:
    return ProxyError(413, f"the request's body is longer than {limit} bytes")
