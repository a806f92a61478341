"""HTTP /ready and /live of every member, so that all pods of a StatefulSet have the same probes."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Callable

from pd_launch.listen import listener

_LINE_SECONDS = 10.0
_MAX_OPEN = 64
_MAX_HEADERS = 100


class StatusServer:
    """Answers GET on the paths of `checks`: 200 when the check is true, otherwise 503."""

    def __init__(self, port: int, checks: Mapping[str, Callable[[], bool]]) -> None:
        self._port = port
        self._checks = checks
        self._open = 0
        self._server: asyncio.AbstractServer | None = None

    async def start(self) -> None:
        """Listen; OSError when the port is taken."""
        self._server = await asyncio.start_server(
            self._answer, sock=listener(self._port), limit=4096
        )

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open += 1
        try:
            if self._open <= _MAX_OPEN:
                words = (await asyncio.wait_for(reader.readline(), _LINE_SECONDS)).split()
                # What is left unread when the connection closes would reset it.
                for _ in range(_MAX_HEADERS):
                    if len(await asyncio.wait_for(reader.readline(), _LINE_SECONDS)) <= 2:
                        break
                writer.write(self._response(words))
                await asyncio.wait_for(writer.drain(), _LINE_SECONDS)
        except (OSError, ValueError, asyncio.TimeoutError):
            pass
        finally:
            self._open -= 1
            writer.close()

    def _response(self, words: list[bytes]) -> bytes:
        check = self._checks.get(words[1].decode("latin-1")) if len(words) == 3 else None
        if check is None or words[0] != b"GET":
            status, body = "404 Not Found", b"no\n"
        elif check():
            status, body = "200 OK", b"ok\n"
        else:
            status, body = "503 Service Unavailable", b"no\n"
        head = f"HTTP/1.1 {status}\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
        return head.encode() + body
