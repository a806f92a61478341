"""Server-sent events, in whatever pieces they come."""

import json
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from pd_proxy.errors import ProxyError
from pd_proxy.sse import EventStream, usage_of
from pd_proxy.surface import error_events
from tests.engine_sim import shapes
from tests.engine_sim.answers import Choice

_TEXT = st.text(max_size=12) | st.sampled_from(
    ["data: [DONE]", '"usage":{"completion_tokens":99', '"choices":[]', "\n\n", ": x", "\r\n"]
)


def feed(stream: EventStream, data: bytes, cuts: list[int]) -> bytes:
    last = 0
    out = b""
    for cut in [*sorted(c % (len(data) + 1) for c in cuts), len(data)]:
        part = data[last:cut]
        last = cut
        if part:
            got = stream.feed(part)
            assert got == b"" or got.endswith(b"\n\n") or got.endswith(b"\n\r\n")
            out += got
    return out


@settings(deadline=None, max_examples=300)
@given(
    parts=st.lists(_TEXT, min_size=1, max_size=8),
    chat=st.booleans(),
    usage=st.booleans(),
    comments=st.booleans(),
    crlf=st.booleans(),
    cuts=st.lists(st.integers(0, 5000), max_size=10),
)
def test_counts_do_not_depend_on_the_pieces(
    parts: list[str], chat: bool, usage: bool, comments: bool, crlf: bool, cuts: list[int]
) -> None:
    body: dict[str, Any] = {"stream_options": {"include_usage": usage}}
    body["messages" if chat else "prompt"] = []
    # In a chat a part without text is no token, but the last has a finish reason.
    filled = [part or "x" for part in parts]
    envelope = shapes.Envelope(body, "id")
    events = [*shapes.events(envelope, [Choice(0, filled, "length")], 7), shapes.DONE]
    data = (b": keep-alive\n\n" if comments else b"").join([b"", *events])
    if crlf:
        data = data.replace(b"\n", b"\r\n")
    stream = EventStream(count=True)
    assert feed(stream, data, cuts) == data
    assert stream.rest() == b""
    assert stream.tokens == len(filled)
    assert stream.done
    assert stream.completion_tokens == (len(filled) if usage else None)
    assert stream.prompt_tokens == (7 if usage else None)
    assert not stream.error_first


@settings(deadline=None, max_examples=300)
@given(data=st.binary(max_size=300), cuts=st.lists(st.integers(0, 300), max_size=6))
def test_any_bytes_pass_unchanged(data: bytes, cuts: list[int]) -> None:
    stream = EventStream(count=True)
    assert feed(stream, data, cuts) + stream.rest() == data


def test_an_event_is_kept_back_until_it_is_whole() -> None:
    stream = EventStream(count=True)
    assert stream.feed(b'data: {"a"') == b""
    assert stream.feed(b":1}\n") == b""
    assert stream.feed(b"\ndata") == b'data: {"a":1}\n\n'
    assert stream.rest() == b"data"


def test_an_endless_event_passes_in_parts() -> None:
    stream = EventStream(count=True)
    passed = sum(len(stream.feed(b"x" * 65536)) for _ in range(40))
    assert passed >= 1024 * 1024


def test_error_first() -> None:
    stream = EventStream(count=True)
    stream.feed(b'data: {"error":{"message":"x"}}\n\n')
    assert stream.error_first


@settings(deadline=None)
@given(text=st.text() | st.just('"usage":{"completion_tokens":9}'), prompt=st.integers(0, 10**6))
def test_usage_is_read_from_the_answer_and_not_from_its_text(text: str, prompt: int) -> None:
    choice = Choice(0, [text, "", "", "", ""], "length")
    answer = shapes.whole(shapes.Envelope({"messages": []}, "id"), [choice], prompt)
    assert usage_of(json.dumps(answer, separators=(",", ":")).encode()) == (prompt, 5)
    assert usage_of(json.dumps(answer).encode()) == (prompt, 5)
    del answer["usage"]
    assert usage_of(json.dumps(answer, separators=(",", ":")).encode()) == (None, None)


def test_a_broken_stream_ends_as_its_kind_does() -> None:
    error = ProxyError(502, "the engine was lost")
    for path in (b"/v1/completions", b"/v1/chat/completions", b"/x"):
        first, done, rest = error_events(path, error).split(b"\n\n")
        assert json.loads(first.removeprefix(b"data: "))["error"]["code"] == 502
        assert (done, rest) == (b"data: [DONE]", b"")
    for path in (b"/v1/messages", b"/v1/responses"):
        name, data = error_events(path, error).removesuffix(b"\n\n").split(b"\n")
        assert name == b"event: error"
        value = json.loads(data.removeprefix(b"data: "))
        assert value["type"] == "error"
        assert value["error"]["message"] == "the engine was lost"


_EVENTS = [
    b'data: {"choices":[{"text":"a"}]}\n\n',
    b'data: {"choices":[{"text":"b"}],"usage":{"completion_tokens":7,"prompt_tokens":3}}\n\n',
    b'data: {"choices":[],"usage":{"completion_tokens":9}}\n\n',
    b": ping\n\n",
    b"data: [DONE]\n\n",
    b'data: {"choices":[{"text":"c"}]}\n\ndata: {"choices":[{"text":"d"}]}\n\n',
    b'data: {"choices":[{"te',
    b'xt":"e"}]}\n\n',
    b'event: x\ndata: {"choices":[{"text":"f"}]}\n\n',
]


@given(st.lists(st.sampled_from(_EVENTS), max_size=12))
def test_an_event_in_a_chunk_of_its_own_counts_as_in_any(parts: list[bytes]) -> None:
    plain, chunked = EventStream(True), EventStream(True)
    out = b""
    for part in parts:
        chunk = b"%x\r\n%b\r\n" % (len(part), part)
        start = chunk.index(b"\r\n") + 2
        out += part if chunked.one(chunk, start, len(chunk) - 2) else chunked.feed(part)
        plain.feed(part)
    assert out + chunked.rest() == b"".join(parts)
    for name in ("tokens", "completion_tokens", "prompt_tokens", "done"):
        assert getattr(chunked, name) == getattr(plain, name), name
