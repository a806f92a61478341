"""The operator's two HTTP endpoints: liveness, and metrics."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

_REQUEST_SECONDS: Final = 5.0
_PHRASES: Final = {200: "OK", 404: "Not Found", 405: "Method Not Allowed", 503: "Unavailable"}


@dataclass(frozen=True)
class Answer:
    """What a page says."""

    status: int
    body: bytes
    content_type: str = "text/plain; charset=utf-8"


Page = Callable[[], Answer]


class Endpoint:
    """Serves fixed paths on one port, each request on its own connection.

    Own code of a few lines: probes and scrapes are simple GETs, and nothing but the cluster's
    own parts asks here.
    """

    def __init__(self, port: int, pages: dict[str, Page], host: str | None = None) -> None:
        self._port = port
        self._pages = pages
        self._host = host
        self._server: asyncio.Server | None = None

    async def start(self) -> int:
        """Listen; the port, of use where 0 was asked for. OSError where the port is taken."""
        self._server = await asyncio.start_server(self._serve, self._host, self._port, limit=8192)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def close(self) -> None:
        """Stop listening."""
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(_REQUEST_SECONDS):
                head = await reader.readuntil(b"\r\n\r\n")
                writer.write(self._answer(head))
                await writer.drain()
        except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # Whoever asked is gone, or does not speak HTTP: there is nobody to tell.
        finally:
            writer.close()

    def _answer(self, head: bytes) -> bytes:
        method, _, rest = head.partition(b" ")
        path = rest.partition(b" ")[0].partition(b"?")[0].decode("latin-1")
        page = self._pages.get(path)
        if method not in (b"GET", b"HEAD"):
            answer = Answer(405, b"only GET\n")
        elif page is None:
            answer = Answer(404, b"not found\n")
        else:
            answer = page()
        lines = (
            f"HTTP/1.1 {answer.status} {_PHRASES[answer.status]}",
            f"Content-Type: {answer.content_type}",
            f"Content-Length: {len(answer.body)}",
            "Connection: close",
        )
        body = b"" if method == b"HEAD" else answer.body
        return "\r\n".join((*lines, "", "")).encode("latin-1") + body
