"""A plain HTTP/1.1 server for the simulation, written apart from the proxy's own."""

import asyncio
import json
import socket
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus
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

    def send(self, status: int, value: Any, kind: str = "application/json", **headers: str) -> None:
        if isinstance(value, bytes):
            body = value
        else:
            body = json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()
        more = f"content-type: {kind}\r\n" if kind else ""
        more += "".join(f"{name}: {text}\r\n" for name, text in headers.items())
        head = f"{_start(status)}content-length: {len(body)}\r\n{more}\r\n"
        self._connection.transport.write(head.encode() + body)

    def start(self, kind: str = "text/event-stream; charset=utf-8") -> None:
        head = f"{_start(200)}content-type: {kind}\r\ntransfer-encoding: chunked\r\n\r\n"
        self._connection.transport.write(head.encode())

    async def chunk(self, data: bytes) -> None:
        self._connection.transport.write(b"%x\r\n%b\r\n" % (len(data), data))
        await self._connection.writable.wait()

    def end(self) -> None:
        self._connection.transport.write(b"0\r\n\r\n")

    def reset(self) -> None:
        self._connection.transport.abort()


def _start(status: int) -> str:
    return f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\nserver: uvicorn\r\n"


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
        if not self._server.listens:
            self.transport.abort()

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
        try:
            length = int(headers.get("content-length", "0"))
            method, path, _ = first.split(" ")
        except ValueError:
            Response(self).send(400, b"Invalid HTTP request received.", "text/plain")
            self.transport.close()
            return
        if len(rest) < length:
            return
        self._buffer = rest[length:]
        request = Request(method, path, headers, rest[:length])
        self._task = asyncio.create_task(self._serve(request))

    async def _serve(self, request: Request) -> None:
        await self._server.handler(request, Response(self))
        self._task = None
        if request.headers.get("connection", "").lower() == "close":
            self.transport.close()
        if self._buffer:
            self._next()


class HttpServer:
    def __init__(self, handler: Handler, host: str = "127.0.0.1", port: int = 0) -> None:
        self.handler = handler
        self.host = host
        self.connections: set[_Connection] = set()
        self.port = port
        self._listening: socket.socket | None = None
        self._accepting: set[asyncio.Task[Any]] = set()

    async def start(self) -> None:
        """Listen, on the same port as before if there was one."""
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        listening = socket.create_server((self.host, self.port), family=family, backlog=1024)
        listening.setblocking(False)
        self.port = listening.getsockname()[1]
        self._listening = listening
        asyncio.get_running_loop().add_reader(listening.fileno(), self._accept, listening)

    def _accept(self, listening: socket.socket) -> None:
        # Not asyncio's own server: one that is closed forgets a connection that it is just
        # accepting, and its client waits for ever.
        loop = asyncio.get_running_loop()
        for _ in range(128):
            try:
                accepted, _ = listening.accept()
            except OSError:
                return
            accepted.setblocking(False)
            accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            task = loop.create_task(self._take(accepted))
            self._accepting.add(task)
            task.add_done_callback(self._accepting.discard)

    async def _take(self, accepted: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        try:
            await loop.connect_accepted_socket(lambda: _Connection(self), accepted)
        except asyncio.CancelledError:
            accepted.close()
            raise

    def stop(self) -> None:
        """Listen no more; cut every connection."""
        if self._listening is not None:
            asyncio.get_running_loop().remove_reader(self._listening.fileno())
            self._listening.close()
            self._listening = None
        for connection in list(self.connections):
            connection.transport.abort()

    @property
    def listens(self) -> bool:
        return self._listening is not None
