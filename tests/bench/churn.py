"""Engines and load for the soak: answers that tell which request they are for.

`python -m tests.bench.churn engine PORT` prints its port (0: chosen); `… load PORT REQUESTS
CONNECTIONS` and `… streams PORT STREAMS SECONDS` print figures, and progress by lines.
"""

import asyncio
import json
import os
import resource
import sys
import time
from typing import Final, cast

import uvloop

_ANSWER_SECONDS: Final = 0.004
_EVENTS: Final = 4
_EVENT_SECONDS: Final = 0.01
_STREAM_SHARE: Final = 10
"""One of so many requests is a stream."""
_SLOW_SECONDS: Final = 5.0
"""Between two events of a slow stream."""


def _whole(body: bytes) -> bytes:
    head = b"HTTP/1.1 200 OK\r\ncontent-length: %d\r\n" % len(body)
    return head + b"content-type: application/json\r\n\r\n" + body


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


_QUERY: Final = _whole(
    b'{"0":{"engine_id":"%d","worker_addr":{"0":{"0":"tcp://127.0.0.1:1"}}}}' % os.getpid()
)
_HEAD: Final = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
    b"transfer-encoding: chunked\r\n\r\n"
)
_END: Final = _chunk(b"data: [DONE]\n\n") + b"0\r\n\r\n"
_MARK: Final = b'"prompt":"q-'


def _name(body: bytes) -> bytes:
    start = body.find(_MARK) + len(_MARK)
    return body[start : body.find(b'"', start)]


class _Engine(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._later: asyncio.TimerHandle | None = None
        self._buffer = b""

    def connection_lost(self, exc: Exception | None) -> None:
        if self._later is not None:
            self._later.cancel()

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        head, mark, body = self._buffer.partition(b"\r\n\r\n")
        if not mark:
            return
        if head.startswith(b"GET /query"):
            self._answer(_QUERY)
            return
        if head.startswith(b"GET"):
            self._answer(_whole(b""))
            return
        start = head.lower().find(b"content-length: ") + 16
        length = int(head[start:].partition(b"\r\n")[0])
        if len(body) < length:
            return
        name = _name(body)
        if b'"stream":true' in body:
            self._buffer = b""
            slow = name.startswith(b"slow-")
            left = int(name.rpartition(b"-")[2]) if slow else _EVENTS
            self._transport.write(_HEAD)
            self._event(name, left, _SLOW_SECONDS if slow else _EVENT_SECONDS)
            return
        answer = _whole(
            b'{"id":"x","object":"text_completion","created":1,"model":"tiny","choices":[{"index":0,'
            b'"text":"a-%b","finish_reason":"length"}],"usage":{"prompt_tokens":1,"total_tokens":2,'
            b'"completion_tokens":1}}' % name
        )
        self._later = asyncio.get_running_loop().call_later(_ANSWER_SECONDS, self._answer, answer)

    def _answer(self, answer: bytes) -> None:
        self._buffer = b""
        self._transport.write(answer)

    def _event(self, name: bytes, left: int, seconds: float) -> None:
        if left == 0:
            self._transport.write(_END)
            return
        event = b'data: {"id":"x","choices":[{"index":0,"text":"a-%b"}]}\n\n' % name
        self._transport.write(_chunk(event))
        self._later = asyncio.get_running_loop().call_later(
            seconds, self._event, name, left - 1, seconds
        )


class _Counts:
    def __init__(self) -> None:
        self.right = 0
        self.cut = 0
        """Streams that ended with an error after their first event: those cannot be saved."""
        self.lost: dict[str, int] = {}
        """All others, by what came instead."""

    def lose(self, what: str) -> None:
        self.lost[what] = self.lost.get(what, 0) + 1

    def as_json(self) -> str:
        return json.dumps({"right": self.right, "cut": self.cut, "lost": self.lost})


def _request(name: str, stream: bool) -> bytes:
    body = json.dumps(
        {"model": "tiny", "prompt": f"q-{name}", "max_tokens": 4, "stream": stream},
        separators=(",", ":"),
    ).encode()
    return (
        b"POST /v1/completions HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
        b"content-length: %d\r\n\r\n%b" % (len(body), body)
    )


def judge(counts: _Counts, name: str, stream: bool, status: int, body: bytes, events: int) -> None:
    """Right, cut or lost."""
    text = b'"text":"a-%b"' % name.encode()
    if status != 200:
        counts.lose(f"status {status}")
    elif body.count(b'"text"') != body.count(text):
        counts.lose("another's answer")
    elif not stream:
        counts.right += text in body
        if text not in body:
            counts.lose("no answer")
    elif body.count(text) == events and body.endswith(b"data: [DONE]\n\n"):
        counts.right += 1
    elif 0 < body.count(text) < events and b'"error"' in body and body.endswith(b"[DONE]\n\n"):
        counts.cut += 1
    else:
        counts.lose("a stream without its end")


async def _exchange(
    reader: asyncio.StreamReader, writer: asyncio.StreamWriter, request: bytes
) -> tuple[int, bytes]:
    writer.write(request)
    head = (await reader.readuntil(b"\r\n\r\n")).lower()
    status = int(head[9:12])
    if b"transfer-encoding: chunked" not in head:
        length = int(head.split(b"content-length: ")[1].split(b"\r\n")[0])
        return status, await reader.readexactly(length)
    parts = []
    while size := int(await reader.readline(), 16):
        parts.append((await reader.readexactly(size + 2))[:-2])
    await reader.readexactly(2)
    return status, b"".join(parts)


async def _client(port: int, names: list[int], counts: _Counts) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    while names:
        number = names.pop()
        stream = number % _STREAM_SHARE == 0
        try:
            status, body = await _exchange(reader, writer, _request(str(number), stream))
        except (OSError, EOFError) as error:
            counts.lose(type(error).__name__)
            writer.close()
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            continue
        judge(counts, str(number), stream, status, body, _EVENTS)
    writer.close()


async def _load(port: int, requests: int, connections: int) -> None:
    counts = _Counts()
    names = list(range(1, requests + 1))
    asking = [asyncio.create_task(_client(port, names, counts)) for _ in range(connections)]
    step = max(1, requests // 20)
    told = 0
    while not all(task.done() for task in asking):
        await asyncio.sleep(0.2)
        done = requests - len(names)
        if done // step > told:
            told = done // step
            print(json.dumps({"done": done}), flush=True)
    await asyncio.gather(*asking)
    print(counts.as_json(), flush=True)


async def _slow(port: int, number: int, events: int, counts: _Counts) -> None:
    name = f"slow-{number}-{events}"
    try:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=4096)
        status, body = await _exchange(reader, writer, _request(name, True))
        writer.close()
    except (OSError, EOFError) as error:
        counts.lose(type(error).__name__)
        return
    judge(counts, name, True, status, body, events)


async def _streams(port: int, streams: int, seconds: float) -> None:
    """All streams are open at once: each lasts longer than it takes to open all."""
    counts = _Counts()
    asking = []
    began = time.monotonic()
    events = int(seconds / _SLOW_SECONDS)
    for number in range(streams):
        asking.append(asyncio.create_task(_slow(port, number, events, counts)))
        if number % 50 == 49:
            await asyncio.sleep(0.1)
    print(json.dumps({"opened": time.monotonic() - began}), flush=True)
    await asyncio.gather(*asking)
    print(counts.as_json(), flush=True)


async def _serve(port: int) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(_Engine, "127.0.0.1", port, backlog=4096, reuse_address=True)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


def more_files() -> None:
    """As many open files as the system allows."""
    _, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))


if __name__ == "__main__":
    more_files()
    what, first, *others = sys.argv[1:]
    if what == "engine":
        uvloop.run(_serve(int(first)))
    elif what == "load":
        uvloop.run(_load(int(first), int(others[0]), int(others[1])))
    else:
        uvloop.run(_streams(int(first), int(others[0]), float(others[1])))
