"""The benchmark's clients: `python -m tests.bench.load KIND PORT CONNECTIONS SECONDS`.

Each connection sends its next request when its answer has ended. Prompts share their beginnings
as conversations do, and no two are the same. Prints one line of figures; `held` opens streams,
prints, and keeps them until its input ends.
"""

import asyncio
import json
import sys
import time
from itertools import count
from typing import Final, cast

import uvloop

from tests.bench.constant import ANSWER, HELD, LONG, SHORT

KINDS: Final = {"unary": 16, "stream": LONG, "short": SHORT, "held": HELD}
"""What is asked for, and its `max_tokens`."""
PREFIXES: Final = 16
PREFIX_BYTES: Final = 3000
TAIL_BYTES: Final = 1000

_WORDS: Final = "The quick brown fox jumps over the lazy dog, number {}, and runs away. "


def requests(kind: str) -> list[tuple[bytes, bytes]]:
    """For each common beginning a request, in two parts that a number of 8 digits goes between."""
    made = []
    for prefix in range(PREFIXES):
        begin = (_WORDS.format(prefix) * (PREFIX_BYTES // 50))[:PREFIX_BYTES]
        tail = ("What does the fox say now? " * (TAIL_BYTES // 20))[: TAIL_BYTES - 8]
        body = json.dumps(
            {
                "model": "tiny",
                "max_tokens": KINDS[kind],
                "stream": kind != "unary",
                "prompt": f"{begin}|{tail}",
            },
            separators=(",", ":"),
        ).encode()
        first, _, second = body.partition(b"|")
        head = (
            b"POST /v1/completions HTTP/1.1\r\nhost: 127.0.0.1\r\nuser-agent: bench\r\n"
            b"accept: */*\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
        ) % (len(body) + 7)
        made.append((head + first, second))
    return made


class Client(asyncio.Protocol):
    """One connection; `waits` are the seconds to each answer's first event."""

    def __init__(self, kind: str, numbers: "count[int]", until: float) -> None:
        self._requests = requests(kind)
        self._numbers = numbers
        self._kind = kind
        self._until = until
        self._end = ANSWER[-20:] if kind == "unary" else b"0\r\n\r\n"
        self.done = asyncio.get_running_loop().create_future()
        self.begun = asyncio.get_running_loop().create_future()
        self.answers = 0
        self.errors = 0
        self.waits: list[float] = []
        self._waiting = False
        self._asked = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._ask()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.done.done():
            self.errors += 1
            self.done.set_result(None)
            if not self.begun.done():
                self.begun.set_result(None)

    def data_received(self, data: bytes) -> None:
        if data.startswith(b"HTTP/1.1 ") and not data.startswith(b"HTTP/1.1 200"):
            self.errors += 1
        if self._waiting and b"data: " in data:
            self._waiting = False
            self.waits.append(time.perf_counter() - self._asked)
            if not self.begun.done():
                self.begun.set_result(None)
        if not data.endswith(self._end):
            return
        self.answers += 1
        if time.perf_counter() > self._until:
            self.done.set_result(None)
            self._transport.close()
        else:
            self._ask()

    def _ask(self) -> None:
        number = next(self._numbers)
        first, second = self._requests[number % PREFIXES]
        self._waiting = True
        self._asked = time.perf_counter()
        self._transport.write(b"%b%08d%b" % (first, number, second))


async def _load(kind: str, port: int, connections: int, seconds: float) -> None:
    loop = asyncio.get_running_loop()
    start = time.perf_counter()
    numbers = count(int(time.time() * 10) % 10**6 * 10)
    clients = [Client(kind, numbers, start + seconds) for _ in range(connections)]
    for client in clients:
        await loop.create_connection(lambda c=client: c, "127.0.0.1", port)  # type: ignore[misc]  # mypy does not infer the lambda
        if kind == "held" and len(clients) > 100:
            await client.begun
    wanted = [client.begun if kind == "held" else client.done for client in clients]
    await asyncio.gather(*wanted)
    waits = sorted(wait for client in clients for wait in client.waits)
    figures = {
        "answers": sum(client.answers for client in clients),
        "errors": sum(client.errors for client in clients),
        "seconds": time.perf_counter() - start,
        "p50": waits[len(waits) // 2] if waits else 0.0,
        "p99": waits[len(waits) * 99 // 100] if waits else 0.0,
    }
    print(json.dumps(figures), flush=True)
    if kind == "held":
        await loop.run_in_executor(None, sys.stdin.read)


if __name__ == "__main__":
    kind_, port_, connections_, seconds_ = sys.argv[1:]
    uvloop.run(_load(kind_, int(port_), int(connections_), float(seconds_)))
