"""A plain HTTP/1.1 server for the simulation, written apart from the proxy's own."""

import asyncio
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, cast


@dataclass
class Request:
    method: str
    path: str
    headers: dict[str, str]
    body: bytes

    def json(self) -> dict[str, Any]:
        value = json.loads(self.body)
        assert isinstance(value, dict)
        return value


class Response:
    """Writes one answer; `drain` waits while the client does not read."""

    def __init__(self, connection: "_Connection") -> None:
        self._connection = connection

    def send(self, status: int, value: Any, kind: str = "application/json") -> None:
        body = (
            value if isinstance(value, bytes) else json.dumps(value, separators=(",", ":")).encode()
        )
        head = f"HTTP/1.1 {status} X\r\ncontent-type: {kind}\r\ncontent-length: {len(body)}\r\n\r\n"
        self._connection.transport.write(head.encode() + body)

    def start(self, kind: str = "text/event-stream; charset=utf-8") -> None:
        head = f"HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ntransfer-encoding: chunked\r\n\r\n"
        self._connection.transport.write(head.encode())

    async def chunk(self, data: bytes) -> None:
        self._connection.transport.write(b"%x\r\n%b\r\n" % (len(data), data))
        await self._connection.writable.wait()

    def end(self) -> None:
        self._connection.transport.write(b"0\r\n\r\n")

    def reset(self) -> None:
        self._connection.transport.abort()


Handler = Callable[[Request, Response], Awaitable[None]]


class _Connection(asyncio.Protocol):
    transport: asyncio.Transport

    def __init__(self, server: "HttpServer") -> None:
        self._server = server
        self._buffer = b""
        self._task: asyncio.Task[None] | None = None
        self.writable = asyncio.Event()
        self.writable.set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self._server.connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._server.connections.discard(self)
        if self._task is not None and not self._task.done():
            self._task.cancel()

    def pause_writing(self) -> None:
        self.writable.clear()

    def resume_writing(self) -> None:
        self.writable.set()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        self._next()

    def _next(self) -> None:
        if self._task is not None and not self._task.done():
            return
        head, mark, rest = self._buffer.partition(b"\r\n\r\n")
        if not mark:
            return
        first, *lines = head.decode("latin-1").split("\r\n")
        headers = {
            name.lower(): value.strip()
            for name, _, value in (line.partition(":") for line in lines)
        }
        length = int(headers.get("content-length", "0"))
        if len(rest) < length:
            return
        self._buffer = rest[length:]
        method, path, _ = first.split(" ")
        request = Request(method, path, headers, rest[:length])
        self._task = asyncio.create_task(self._serve(request))

    async def _serve(self, request: Request) -> None:
        await self._server.handler(request, Response(self))
        self._task = None
        if self._buffer:
            self._next()


class HttpServer:
    def __init__(self, handler: Handler) -> None:
        self.handler = handler
        self.connections: set[_Connection] = set()
        self.port = 0
        self._server: asyncio.Server | None = None

    async def start(self) -> None:
        """Listen, on the same port as before if there was one."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: _Connection(self), "127.0.0.1", self.port, reuse_address=True
        )
        self.port = self._server.sockets[0].getsockname()[1]

    def stop(self) -> None:
        """Listen no more; cut every connection."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for connection in list(self.connections):
            connection.transport.abort()
