"""Connections to an engine: when they are used again, and when not."""

import asyncio
import itertools
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pd_proxy.http.headers import Headers
from pd_proxy.http.upstream import Parts, Pool, Upstream, authority

WHOLE = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"


class FakeTransport:
    def __init__(self) -> None:
        self.reading = True
        self.closing = False
        self.written: list[bytes] = []

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def writelines(self, parts: tuple[bytes, ...]) -> None:
        self.written.extend(parts)

    def is_closing(self) -> bool:
        return self.closing

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True

    def close(self) -> None:
        self.closing = True

    abort = close


class Heard:
    def __init__(self, upstream: Upstream, pause: bool = False) -> None:
        self.said: list[Any] = []
        self.upstream = upstream
        self.pause = pause

    def on_head(self, status: int, headers: Headers) -> None:
        self.said.append(status)

    def on_body(self, data: bytes) -> None:
        self.said.append(data)
        if self.pause:
            self.upstream.pause()

    def on_chunks(self, chunks: bytes, parts: Parts) -> None:
        framed = (b"%x\r\n%b\r\n" % (end - start, chunks[start:end]) for start, end in parts)
        assert b"".join(framed) == chunks
        for start, end in parts:
            self.on_body(chunks[start:end])

    def on_end(self) -> None:
        self.said.append("end")

    def on_lost(self, reason: str) -> None:
        self.said.append(reason)


class Rig:
    def __init__(self, pause: bool = False) -> None:
        self.doubts = 0
        self.pool = Pool("127.0.0.1", 1, self.doubt)
        self.upstream = Upstream(self.pool)
        self.transport = FakeTransport()
        self.upstream.connection_made(cast("asyncio.Transport", self.transport))
        self.heard = Heard(self.upstream, pause)
        self.upstream.send(self.heard, b"head", b"body")

    def doubt(self) -> None:
        self.doubts += 1


async def test_a_connection_is_used_again() -> None:
    r = Rig()
    for byte in WHOLE:
        r.upstream.data_received(bytes((byte,)))
    assert r.heard.said == [200, b"o", b"k", "end"]
    assert r.pool.take() is r.upstream
    assert r.transport.written == [b"headbody"]


async def test_a_pause_ends_with_its_exchange() -> None:
    r = Rig(pause=True)
    r.upstream.data_received(WHOLE)
    assert r.heard.said == [200, b"ok", "end"]
    assert r.transport.reading
    assert r.pool.take() is r.upstream


async def test_interim_answers_are_not_the_answer() -> None:
    r = Rig()
    r.upstream.data_received(b"HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n" + WHOLE)
    assert r.heard.said == [200, b"ok", "end"]


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok",
        b"HTTP/1.0 200 OK\r\ncontent-length: 2\r\n\r\nok",
    ],
)
async def test_a_connection_that_closes_is_not_used_again(data: bytes) -> None:
    r = Rig()
    r.upstream.data_received(data)
    assert r.heard.said == [200, b"ok", "end"]
    assert r.pool.take() is None
    assert r.transport.closing


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", ["connection_lost"]),
        (b"HTTP/1.1 200 OK\r\ncont", ["connection_lost"]),
        (b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\n\r\nok", [200, b"ok", "connection_lost"]),
        (
            b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nok\r\n",
            [200, b"ok", "connection_lost"],
        ),
        (b"HTTP/1.1 200 OK\r\n\r\nok", [200, b"ok", "end"]),
    ],
)
async def test_the_end_of_a_connection(data: bytes, said: list[Any]) -> None:
    r = Rig()
    r.upstream.data_received(data)
    r.upstream.connection_lost(None)
    assert r.heard.said == said


@pytest.mark.parametrize(
    "data",
    [
        b"RUBBISH\r\n\r\n",
        b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ntransfer-encoding: chunked\r\n\r\nok",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n",
        b"HTTP/1.1 101 Switching\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n",
    ],
)
async def test_what_is_not_http_ends_the_exchange(data: bytes) -> None:
    r = Rig()
    r.upstream.data_received(data)
    assert r.heard.said[-1] == "invalid_response"
    assert r.transport.closing
    assert r.pool.take() is None


async def test_after_an_abort_nothing_is_heard() -> None:
    r = Rig()
    r.upstream.abort()
    r.upstream.data_received(WHOLE)
    r.upstream.connection_lost(None)
    assert r.heard.said == []
    assert r.doubts == 0


async def test_an_idle_connection_that_is_lost_raises_doubt() -> None:
    r = Rig()
    r.upstream.data_received(WHOLE)
    r.upstream.connection_lost(None)
    assert r.doubts == 1
    assert r.pool.take() is None


async def test_data_that_nobody_asked_for_ends_an_idle_connection() -> None:
    r = Rig()
    r.upstream.data_received(WHOLE)
    r.upstream.data_received(WHOLE)
    assert r.transport.closing
    assert r.pool.take() is None


@pytest.mark.parametrize("how", ["take", "sweep", "close"])
async def test_a_connection_is_not_kept_for_too_long(how: str) -> None:
    r = Rig()
    r.upstream.data_received(WHOLE)
    if how == "close":
        r.pool.close()
    else:
        r.upstream.idle_since -= 10
        assert getattr(r.pool, how)() is None
    assert r.transport.closing
    assert r.doubts == 0


async def test_a_listeners_own_error_is_not_the_engines() -> None:
    r = Rig()

    def broken(data: bytes) -> None:
        raise ZeroDivisionError

    r.heard.on_body = broken  # type: ignore[method-assign] # on purpose
    with pytest.raises(ZeroDivisionError):
        r.upstream.data_received(WHOLE)
    assert r.heard.said == [200, "invalid_response"]


@pytest.mark.parametrize(
    ("host", "text"),
    [("10.0.0.1", "10.0.0.1:80"), ("2001:db8::1", "[2001:db8::1]:80"), ("name", "name:80")],
)
def test_authority(host: str, text: str) -> None:
    assert authority(host, 80) == text


@given(
    st.lists(st.binary(min_size=1, max_size=5000), max_size=8),
    st.lists(st.integers(0, 45_000), max_size=12),
    st.booleans(),
)
def test_chunks_are_the_same_however_they_come(
    parts: list[bytes], cuts: list[int], upper: bool
) -> None:
    async def run() -> None:
        r = Rig()
        size = b"%X" if upper else b"%x"
        sent = b"".join(size % len(part) + b"\r\n" + part + b"\r\n" for part in parts)
        answer = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + sent + b"0\r\n\r\n"
        places = sorted({0, *(cut % len(answer) for cut in cuts), len(answer)})
        for begin, end in itertools.pairwise(places):
            r.upstream.data_received(answer[begin:end])
        body = b"".join(said for said in r.heard.said if isinstance(said, bytes))
        assert body == b"".join(parts)
        assert (r.heard.said[0], r.heard.said[-1]) == (200, "end")
        assert r.pool.take() is r.upstream
        # And the next answer on the same connection.
        r.upstream.send(r.heard, b"head", b"")
        r.upstream.data_received(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n1\r\nx\r")
        assert r.heard.said[-2:] == [b"1\r\nx\r", "end"]

    asyncio.run(run())


@pytest.mark.parametrize("size", [b"0x5", b"+5", b" 5", b"5 x", b"05;x=\n", b"g", b"-5", b"5_0"])
async def test_a_strange_chunk_size_is_the_parsers_to_judge(size: bytes) -> None:
    r = Rig()
    r.upstream.data_received(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n")
    r.upstream.data_received(size + b"\r\nhello\r\n")
    assert r.heard.said == [200, "invalid_response"]
