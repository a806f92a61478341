"""A plain asyncio HTTP/1.1 client for tests, written apart from the proxy's own."""

import asyncio
import json
from dataclasses import dataclass
from typing import Any, Self


@dataclass(frozen=True)
class Reply:
    status: int
    headers: dict[str, str]
    body: bytes
    whole: bool = True
    """False where the connection ended before the body."""

    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def error(self) -> dict[str, Any]:
        """The error, in OpenAI's shape."""
        found: dict[str, Any] = self.json()["error"]
        assert set(found) == {"message", "type", "param", "code"}
        assert found["code"] == self.status
        return found

    def events(self) -> list[Any]:
        """The JSON events of a stream that ended as it should."""
        *events, done, rest = self.body.split(b"\n\n")
        assert done == b"data: [DONE]"
        assert rest == b""
        return [json.loads(event.removeprefix(b"data: ")) for event in events]

    def text(self) -> str:
        """What was generated, of the first choice."""
        if not self.headers["content-type"].startswith("text/event-stream"):
            return _text(self.json())
        return "".join(_text(event) for event in self.events() if "choices" in event)


def _text(answer: Any) -> str:
    return "".join(
        choice.get("text")
        or (choice.get("message") or {}).get("content")
        or (choice.get("delta") or {}).get("content")
        or ""
        for choice in answer["choices"]
        if choice.get("index", 0) == 0
    )


class Client:
    """One connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    @classmethod
    async def open(cls, port: int, limit: int = 2**16) -> Self:
        return cls(*await asyncio.open_connection("127.0.0.1", port, limit=limit))

    def close(self) -> None:
        self.writer.close()

    def abort(self) -> None:
        self.writer.transport.abort()

    def send(self, method: str, path: str, body: bytes = b"", **headers: str) -> None:
        lines = [f"{method} {path} HTTP/1.1", "host: test"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        if body or method == "POST":
            lines.append(f"content-length: {len(body)}")
            if "content_type" not in headers:
                lines.append("content-type: application/json")
        self.writer.write("\r\n".join(lines).encode() + b"\r\n\r\n" + body)

    def post(self, path: str, body: Any, **headers: str) -> None:
        self.send(
            "POST", path, json.dumps(body).encode(), content_type="application/json", **headers
        )

    async def head(self) -> tuple[int, dict[str, str]]:
        first, *lines = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers: dict[str, str] = {}
        for line in lines:
            if line:
                name, _, value = line.partition(":")
                assert name.lower() not in headers, f"{name} came twice"
                headers[name.lower()] = value.strip()
        return int(first.split(" ")[1]), headers

    async def chunk(self) -> bytes:
        """The next chunk; empty at the end."""
        size = int(await self.reader.readuntil(b"\r\n"), 16)
        data = await self.reader.readexactly(size)
        assert await self.reader.readexactly(2) == b"\r\n"
        return data

    async def reply(self) -> Reply:
        status, headers = await self.head()
        parts: list[bytes] = []
        try:
            if "content-length" in headers:
                parts.append(await self.reader.readexactly(int(headers["content-length"])))
            elif headers.get("transfer-encoding") == "chunked":
                while data := await self.chunk():
                    parts.append(data)
            else:
                parts.append(await self.reader.read())
        except (asyncio.IncompleteReadError, ConnectionError):
            return Reply(status, headers, b"".join(parts), whole=False)
        return Reply(status, headers, b"".join(parts))


async def ask(port: int, path: str, body: Any, **headers: str) -> Reply:
    """POST over a connection of its own."""
    client = await Client.open(port)
    try:
        client.post(path, body, **headers)
        return await client.reply()
    finally:
        client.close()


async def get(port: int, path: str) -> Reply:
    """GET over a connection of its own."""
    client = await Client.open(port)
    try:
        client.send("GET", path)
        return await client.reply()
    finally:
        client.close()
