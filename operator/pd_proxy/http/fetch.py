"""A small GET or POST, for the engines' own servers."""

import asyncio
from typing import Final

from pd_proxy.http.headers import Headers
from pd_proxy.http.upstream import Parts, Pool

_MOST_BYTES: Final = 16 * 1024 * 1024


class FetchError(Exception):
    """No usable answer; `str()` says why in one line."""


class _Answer:
    def __init__(self, any_status: bool = False) -> None:
        self._any_status = any_status
        self.done: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._status = 0
        self._parts: list[bytes] = []
        self._size = 0

    def on_head(self, status: int, headers: Headers) -> None:
        self._status = status

    def on_body(self, data: bytes) -> None:
        self._size += len(data)
        if self._size <= _MOST_BYTES:
            self._parts.append(data)

    def on_chunks(self, chunks: bytes, parts: Parts) -> None:
        for start, end in parts:
            self.on_body(chunks[start:end])

    def on_end(self) -> None:
        if self.done.done():
            return
        if self._any_status:
            self.done.set_result(b"%d" % self._status)
        elif self._status != 200:
            self.done.set_exception(FetchError(f"status {self._status}"))
        elif self._size > _MOST_BYTES:
            self.done.set_exception(FetchError(f"more than {_MOST_BYTES} bytes"))
        else:
            self.done.set_result(b"".join(self._parts))

    def on_lost(self, reason: str) -> None:
        if not self.done.done():
            self.done.set_exception(FetchError(reason))


async def fetch(pool: Pool, path: str, seconds: float) -> bytes:
    """The body of a 200; FetchError where there is none within the time."""
    head = b"GET %b HTTP/1.1\r\n%b\r\n" % (path.encode(), pool.host_line)
    return await _exchange(pool, head, b"", _Answer(), seconds)


async def post(pool: Pool, path: str, body: bytes, seconds: float) -> int:
    """The status that a body of JSON is answered with; FetchError where there is no answer."""
    head = b"POST %b HTTP/1.1\r\n%bcontent-type: application/json\r\ncontent-length: %d\r\n\r\n"
    filled = head % (path.encode(), pool.host_line, len(body))
    return int(await _exchange(pool, filled, body, _Answer(any_status=True), seconds))


async def _exchange(pool: Pool, head: bytes, body: bytes, answer: _Answer, seconds: float) -> bytes:
    upstream = None
    try:
        async with asyncio.timeout(seconds):
            upstream = pool.take() or await pool.connect(seconds)
            upstream.send(answer, head, body)
            return await answer.done
    except (OSError, TimeoutError) as error:
        raise FetchError(str(error) or f"no answer within {seconds:g} s") from error
    finally:
        if upstream is not None and not answer.done.done():
            upstream.abort()
        if answer.done.done() and not answer.done.cancelled():
            answer.done.exception()  # else the loop complains of it when nobody waited
