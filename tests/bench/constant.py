"""Constant engines on loopback, as cheap as they can be: no parser, no JSON.

`python -m tests.bench.constant` prints its port. It answers `/query`, `/health` and `/v1/models`,
prefills and decodes, at once and with the same words. A stream has as many events as
`max_tokens` says:

- SHORT: one event, which comes with the head;
- LONG: `CHUNKS` events, one each step, as an engine's batch gives them;
- HELD: one event, then nothing until the client leaves.
"""

import asyncio
import json
from typing import Final, cast

import uvloop

CHUNKS: Final = 200
CHUNK_SECONDS: Final = 0.005
SHORT: Final = 1
LONG: Final = 200
HELD: Final = 9999

ANSWER: Final = json.dumps(
    {
        "id": "cmpl-0123456789abcdef",
        "object": "text_completion",
        "created": 1,
        "model": "tiny",
        "choices": [
            {"index": 0, "text": " word" * 16, "logprobs": None, "finish_reason": "length"}
        ],
        "usage": {"prompt_tokens": 1000, "total_tokens": 1016, "completion_tokens": 16},
    },
    separators=(",", ":"),
).encode()
_QUERY: Final = b'{"0":{"engine_id":"e","worker_addr":{"0":{"0":"tcp://127.0.0.1:1"}}}}'
_MODELS: Final = b'{"object":"list","data":[{"id":"tiny","object":"model"}]}'
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


_UNARY: Final = _whole(ANSWER)
_QUERY_ANSWER: Final = _whole(_QUERY)
_MODELS_ANSWER: Final = _whole(_MODELS)
_STREAM: Final = (
    b"HTTP/1.1 200 OK\r\nserver: uvicorn\r\ncontent-type: text/event-stream; charset=utf-8\r\n"
    b"transfer-encoding: chunked\r\n\r\n"
)
_END: Final = _chunk(_DONE) + b"0\r\n\r\n"
_SHORT_ASKED: Final = b'"max_tokens":%d,' % SHORT
_HELD_ASKED: Final = b'"max_tokens":%d,' % HELD


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
        self._held = b""
        self._left = 0

    def data_received(self, data: bytes) -> None:
        data = self._held + data
        if not _complete(data):
            self._held = data
            return
        self._held = b""
        if data.startswith(b"GET /v1/models"):
            self._transport.write(_MODELS_ANSWER)
        elif data.startswith(b"GET"):
            self._transport.write(_QUERY_ANSWER)
        elif b'"stream":true' not in data:
            self._transport.write(_UNARY)
        elif _SHORT_ASKED in data:
            self._transport.write(_STREAM + _chunk(_EVENT) + _END)
        elif _HELD_ASKED in data:
            self._transport.write(_STREAM + _chunk(_EVENT))
        else:
            self._transport.write(_STREAM)
            self._left = CHUNKS
            self._steps.streams.add(self)

    def step(self) -> None:
        if self._left == 0:
            self._steps.streams.discard(self)
            self._transport.write(_END)
            return
        self._left -= 1
        self._transport.write(_chunk(_EVENT))


def _complete(data: bytes) -> bool:
    """Whether a request, with a Content-Length or without a body, is there to its end."""
    end = data.find(b"\r\n\r\n")
    if end < 0:
        return False
    head = data[:end].lower()
    at = head.find(b"content-length:")
    if at < 0:
        return True
    return len(data) >= end + 4 + int(head[at + 15 :].split(b"\r\n", 1)[0])


async def _serve() -> None:
    loop = asyncio.get_running_loop()
    steps = _Steps()
    steps.run()
    server = await loop.create_server(lambda: _Engine(steps), "127.0.0.1", 0, backlog=4096)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    uvloop.run(_serve())
