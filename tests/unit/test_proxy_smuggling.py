"""Framing that another parser could read differently: refused, or read in one way only."""

import pytest

from pd_proxy.errors import ProxyError
from pd_proxy.http.headers import to_engine
from pd_proxy.http.reader import Reader
from pd_proxy.http.request import Request

BODY = b'{"a":1}'
LENGTH = b"content-length: 7"
CHUNKED = b"transfer-encoding: chunked"
CHUNKS = b"7\r\n" + BODY + b"\r\n0\r\n\r\n"
NEXT = b"GET /next HTTP/1.1\r\nhost: x\r\n\r\n"
POST = b"POST /x HTTP/1.1"


def post(*lines: bytes, body: bytes = BODY, first: bytes = POST) -> bytes:
    return b"\r\n".join((first, b"host: x", *lines)) + b"\r\n\r\n" + body


def chunks(body: bytes) -> bytes:
    return post(CHUNKED, body=body)


def read(data: bytes) -> tuple[ProxyError | None, list[Request]]:
    found: list[Request] = []
    return Reader(found.append, 4096, 4096).feed(data), found


REFUSED = {
    "bare LF in the head": b"POST /x HTTP/1.1\nhost: x\ncontent-length: 7\n\n" + BODY,
    "bare LF once": b"POST /x HTTP/1.1\r\nhost: x\ncontent-length: 7\r\n\r\n" + BODY,
    "folded by a tab": post(LENGTH, b"a: b", b"\tc: d"),
    "folded length": post(b"content-length:", b" 7"),
    "empty length": post(b"content-length:"),
    "list of lengths": post(b"content-length: 7, 7"),
    "hexadecimal length": post(b"content-length: 0x7"),
    "length with a letter": post(b"content-length: 7a"),
    "length beyond numbers": post(b"content-length: 99999999999999999999999"),
    "encoding behind a vertical tab": post(b"transfer-encoding: \x0bchunked", body=CHUNKS),
    "encoding identity": post(b"transfer-encoding: identity", LENGTH),
    "chunked not last": post(b"transfer-encoding: chunked, identity", body=CHUNKS),
    "empty encoding": post(b"transfer-encoding:", LENGTH),
    "quoted encoding": post(b'transfer-encoding: "chunked"', body=CHUNKS),
    "LF in a chunk's extension": chunks(b"7;a\nb\r\n" + BODY + b"\r\n0\r\n\r\n"),
    "CR in a chunk's extension": chunks(b"7;a\rb\r\n" + BODY + b"\r\n0\r\n\r\n"),
    "space behind a chunk's size": chunks(b"7 \r\n" + BODY + b"\r\n0\r\n\r\n"),
    "0x before a chunk's size": chunks(b"0x7\r\n" + BODY + b"\r\n0\r\n\r\n"),
    "chunk beyond 64 bits": chunks(b"ffffffffffffffff7\r\n" + BODY + b"\r\n0\r\n\r\n"),
    "chunk that wraps around": chunks(b"10000000000000007\r\n" + BODY + b"\r\n0\r\n\r\n"),
    "chunk without its end": chunks(b"7\r\n" + BODY + b"0\r\n\r\n"),
    "chunk with half its end": chunks(b"7\r\n" + BODY + b"\n0\r\n\r\n"),
    "LF behind a chunk's size": chunks(b"7\n" + BODY + b"\r\n0\r\n\r\n"),
    "LF behind the last chunk": chunks(b"7\r\n" + BODY + b"\r\n0\r\n\n"),
    "length in a trailer": chunks(b"7\r\n" + BODY + b"\r\n0\r\ncontent-length: 3\r\n\r\n"),
    "chunks in HTTP/1.0": post(CHUNKED, body=CHUNKS, first=b"POST /x HTTP/1.0"),
    "tab in the first line": post(LENGTH, first=b"POST\t/x HTTP/1.1"),
    "space in the target": post(LENGTH, first=b"POST /x y HTTP/1.1"),
    "NUL in the target": post(LENGTH, first=b"POST /x\x00 HTTP/1.1"),
    "no version": post(LENGTH, first=b"POST /x"),
    "version in lower case": post(LENGTH, first=b"POST /x http/1.1"),
    "method in lower case": post(LENGTH, first=b"post /x HTTP/1.1"),
    "space before the first header": b"POST /x HTTP/1.1\r\n host: x\r\n\r\n",
    "header without a colon": post(b"abc", LENGTH),
    "header without a name": post(b": abc", LENGTH),
    "space in a name": post(b"a b: c", LENGTH),
    "8 bits in a name": post(b"\xe9: c", LENGTH),
}

READ = {
    "plain": post(LENGTH),
    "a name like a length": post(b"content_length: 3", LENGTH),
    "encoding behind a tab": post(b"transfer-encoding:\tchunked", body=CHUNKS),
    "encoding before a space": post(b"transfer-encoding: chunked ", body=CHUNKS),
    "encoding in upper case": post(b"transfer-encoding: CHUNKED", body=CHUNKS),
    "chunk with an extension": chunks(b"7;a=b\r\n" + BODY + b"\r\n0\r\n\r\n"),
    "chunk's size with zeros": chunks(b"00000000007\r\n" + BODY + b"\r\n0\r\n\r\n"),
    "chunk's size in capitals": chunks(b"A\r\n          \r\n0\r\n\r\n"),
    "several chunks": chunks(b'1\r\n{\r\n6\r\n"a":1}\r\n0\r\n\r\n'),
    "trailer": chunks(b"7\r\n" + BODY + b"\r\n0\r\na: b\r\n\r\n"),
    "body of a GET": post(LENGTH, first=b"GET /x HTTP/1.1"),
    "empty line before": b"\r\n" + post(LENGTH),
    "length declared of this connection": post(LENGTH, b"connection: content-length"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name: str) -> None:
    error, found = read(REFUSED[name] + NEXT)
    assert error is not None
    assert error.status == 400
    assert found == []


@pytest.mark.parametrize("name", READ)
def test_read_in_one_way(name: str) -> None:
    error, found = read(READ[name] + NEXT)
    assert error is None
    assert [request.path for request in found] == [b"/x", b"/next"]
    assert found[0].body in (BODY, b" " * 10)
    # What engines get is framed anew, by one length alone.
    lines = to_engine(found[0].headers).lower()
    for word in (b"content-length", b"content_length", b"transfer-encoding", b"connection"):
        assert word not in lines


@pytest.mark.parametrize(
    "name",
    [
        "X-Data-Parallel-Rank", "X_Data_Parallel_Rank", "x-data_parallel-rank", "X-Prefiller-Url",
        "x-prefiller-host-port", "X-Data-Parallel-Host-Port", "X-KV-Transfer-Params",
        "X-PD-Decoder", "x_pd_prefiller", "Proxy-Authorization", "Host",
        "X-Amzn-SageMaker-Custom-Attributes",
        "Transfer_Encoding", "Keep-Alive", "Upgrade", "TE", "Trailer", "Expect", "X-Request-Id",
    ],
)  # fmt: skip
def test_no_client_speaks_to_the_inside(name: str) -> None:
    assert to_engine([(name.lower().encode(), b"1"), (b"x-mine", b"2")]) == b"x-mine: 2\r\n"
