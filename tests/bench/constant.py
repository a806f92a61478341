"""Constant engines and a load generator on loopback, as cheap as they can be: no parser, no JSON.

`python -m tests.bench.constant engine` prints its port; it answers `/query`, prefill, decode and
streams. `python -m tests.bench.constant load PORT CONNECTIONS SECONDS unary|stream` prints figures.
"""

import asyncio
import json
import sys
import time
from typing import Final, cast

import uvloop

CHUNKS: Final = 200
CHUNK_SECONDS: Final = 0.005
PROMPT: Final = "The quick brown fox jumps over the lazy dog. " * 20

_ANSWER: Final = json.dumps(
    {
        "id": "cmpl-0123456789abcdef",
        "object": "text_completion",
        "created": 1,
        "model": "tiny",
        "choices": [
            {"index": 0, "text": " word" * 16, "logprobs": None, "finish_reason": "length"}
        ],
        "usage": {"prompt_tokens": 180, "total_tokens": 196, "completion_tokens": 16},
    },
    separators=(",", ":"),
).encode()
_QUERY: Final = b'{"0":{"engine_id":"e","worker_addr":{"0":{"0":"tcp://127.0.0.1:1"}}}}'
_EVENT: Final = (
    b'data: {"id":"cmpl-0123456789abcdef","object":"text_completion","created":1,"model":"tiny",'
    b'"choices":[{"index":0,"text":" word","logprobs":null,"finish_reason":null}]}\n\n'
)
_DONE: Final = b"data: [DONE]\n\n"


def _whole(body: bytes) -> bytes:
    head = b"HTTP/1.1 200 OK\r\nserver: uvicorn\r\ncontent-length: %d\r\n" % len(body)
    return head + b"content-type: application/json\r\n\r\n" + body


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


_UNARY: Final = _whole(_ANSWER)
_QUERY_ANSWER: Final = _whole(_QUERY)
_STREAM: Final = (
    b"HTTP/1.1 200 OK\r\nserver: uvicorn\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
    b"transfer-encoding: chunked\r\n\r\n"
)


class _Steps:
    """As in an engine, each step brings a token to every stream at once."""

    def __init__(self) -> None:
        self.streams: set[_Engine] = set()

    def run(self) -> None:
        asyncio.get_running_loop().call_later(CHUNK_SECONDS, self.run)
        for stream in list(self.streams):
            stream.step()


class _Engine(asyncio.Protocol):
    def __init__(self, steps: _Steps) -> None:
        self._steps = steps

    def connection_lost(self, exc: Exception | None) -> None:
        self._steps.streams.discard(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._left = 0

    def data_received(self, data: bytes) -> None:
        if data.startswith(b"GET"):
            self._transport.write(_QUERY_ANSWER)
        elif b'"stream":true' in data:
            self._transport.write(_STREAM)
            self._left = CHUNKS
            self._steps.streams.add(self)
        else:
            self._transport.write(_UNARY)

    def step(self) -> None:
        if self._left == 0:
            self._steps.streams.discard(self)
            self._transport.write(_chunk(_DONE) + b"0\r\n\r\n")
            return
        self._left -= 1
        self._transport.write(_chunk(_EVENT))


class _Client(asyncio.Protocol):
    def __init__(self, request: bytes, stream: bool, until: float) -> None:
        self._request = request
        self._stream = stream
        self._until = until
        self._size = 0
        self.done = asyncio.get_running_loop().create_future()
        self.answers = 0
        self.errors = 0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.write(self._request)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.errors += 1
            self.done.set_result(None)

    def data_received(self, data: bytes) -> None:
        if data.startswith(b"HTTP/1.1 ") and not data.startswith(b"HTTP/1.1 200"):
            self.errors += 1
        if not data.endswith(b"0\r\n\r\n" if self._stream else _ANSWER[-20:]):
            return
        self.answers += 1
        if time.perf_counter() > self._until:
            self.done.set_result(None)
            self._transport.close()
        else:
            self._transport.write(self._request)


async def _serve() -> None:
    loop = asyncio.get_running_loop()
    steps = _Steps()
    steps.run()
    server = await loop.create_server(lambda: _Engine(steps), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


async def _load(port: int, connections: int, seconds: float, stream: bool) -> None:
    body = json.dumps(
        {"model": "tiny", "prompt": PROMPT, "max_tokens": 16, "stream": stream},
        separators=(",", ":"),
    ).encode()
    request = (
        b"POST /v1/completions HTTP/1.1\r\nhost: 127.0.0.1\r\nuser-agent: bench\r\naccept: */*\r\n"
        b"content-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)
    )
    loop = asyncio.get_running_loop()
    start = time.perf_counter()
    clients = [_Client(request, stream, start + seconds) for _ in range(connections)]
    for client in clients:
        await loop.create_connection(lambda c=client: c, "127.0.0.1", port)  # type: ignore[misc]  # mypy does not infer the lambda
    await asyncio.gather(*(client.done for client in clients))
    answers = sum(client.answers for client in clients)
    errors = sum(client.errors for client in clients)
    took = time.perf_counter() - start
    print(json.dumps({"answers": answers, "errors": errors, "seconds": took}), flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "engine":
        uvloop.run(_serve())
    else:
        port_, connections_, seconds_, kind = sys.argv[2:]
        uvloop.run(_load(int(port_), int(connections_), float(seconds_), kind == "stream"))
