"""Anything at all from clients and engines: no crash, no hang, nothing smuggled."""

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from typing import Any, Final

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tests.engine_sim.client import Client
from tests.engine_sim.rig import Rig, completion, rig, until
from tests.engine_sim.wire import Request, Response

EXAMPLES: Final = 6 if os.environ.get("HYPOTHESIS_PROFILE", "gate") == "gate" else 300
"""Each example is a batch for one proxy."""
HANG_SECONDS: Final = 60.0
SHORT: Final = {"prefill": 1.0, "firstToken": 2.0, "betweenTokens": 0.5}
PATH: Final = "/v1/completions"

FUZZ: Final = settings(
    deadline=None, max_examples=EXAMPLES, suppress_health_check=list(HealthCheck)
)

JSON: Final = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=True) | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3)
    ),
    max_leaves=6,
)
KEYS: Final = st.sampled_from(
    ("model", "prompt", "messages", "stream", "max_tokens", "max_completion_tokens", "n",
     "stream_options", "kv_transfer_params", "vllm_xargs", "echo", "logprobs", "best_of", "user",
     "tools", "tool_choice", "cache_salt", "priority")
)  # fmt: skip
BODY: Final = st.dictionaries(KEYS, JSON, max_size=6).map(lambda v: json.dumps(v).encode())
TORN: Final = st.tuples(BODY, st.integers(0, 200), st.binary(max_size=3)).map(
    lambda t: t[0][: t[1]] + t[2] + t[0][t[1] :]
)


def run(work: Callable[[Rig], Awaitable[None]], **more: Any) -> None:
    async def inside() -> None:
        async with rig(seconds=SHORT, **more) as r, asyncio.timeout(HANG_SECONDS):
            await work(r)
            await until(lambda: r.proxy.api.in_flight == 0)
            assert r.proxy.metrics.internal_errors == 0
            assert (await r.complete("after")).status == 200

    asyncio.run(inside())


@FUZZ
@given(bodies=st.lists(BODY | TORN, min_size=1, max_size=12), chat=st.booleans())
def test_any_body_has_one_answer(bodies: list[bytes], chat: bool) -> None:
    async def work(r: Rig) -> None:
        # The engine is not what is tested: it takes everything.
        async def answer(request: Request, response: Response) -> None:
            response.send(200, {"choices": [], "usage": {"prompt_tokens": 1,
                                "total_tokens": 2, "completion_tokens": 1}})  # fmt: skip

        for engine in (*r.prefillers, *r.decoders):
            engine.http.handler = answer
        client = await Client.open(r.port)
        for body in bodies:
            client.send("POST", "/v1/chat/completions" if chat else PATH, body)
            reply = await client.reply()
            assert reply.whole
            assert reply.status == 200 or (400 <= reply.status < 600 and reply.error["message"])
            if reply.headers.get("connection") == "close":
                client.close()
                client = await Client.open(r.port)
        client.close()
        for engine in (*r.prefillers, *r.decoders):
            engine.http.handler = engine._serve

    run(work)


REQUEST: Final = (
    b"POST /v1/completions HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\n"
    b"Content-Length: %d\r\n\r\n%b"
)


def request(name: str) -> bytes:
    body = json.dumps(completion(name)).encode()
    return REQUEST % (len(body), body)


DAMAGE: Final = st.lists(
    st.tuples(
        st.integers(0, 120),
        st.sampled_from((b"", b"\r\n", b"\n", b"\r", b"\x00", b" ", b":", b"0", b"\t",
                         b"Transfer-Encoding: chunked\r\n", b"Content-Length: 3\r\n"))
        | st.binary(max_size=2),
        st.integers(0, 3),
    ),
    max_size=3,
)  # fmt: skip


@FUZZ
@given(damages=st.lists(DAMAGE, min_size=1, max_size=8))
def test_damaged_requests_smuggle_nothing(damages: list[Any]) -> None:
    """An engine sees requests of the proxy's making only, each with a body that came whole."""

    async def work(r: Rig) -> None:
        for damage in damages:
            data = request("first") + request("second")
            for at, more, gone in damage:
                data = data[:at] + more + data[at + gone :]
            client = await Client.open(r.port)
            client.writer.write(data)
            client.writer.write_eof()
            said = await client.reader.read()
            client.close()
            assert said == b"" or said.startswith(b"HTTP/1.1 ")
            assert said.count(b"HTTP/1.1 ") <= 2
        for engine in (*r.prefillers, *r.decoders):
            for seen in engine.seen:
                assert seen.path == PATH
                assert seen.body["prompt"] in ("first", "second")
                assert len([n for n in seen.headers if n == "content-length"]) == 1
                assert "transfer-encoding" not in seen.headers

    run(work)


EVENT: Final = st.sampled_from(
    (
        b'data: {"id":"x","choices":[{"index":0,"text":" a","finish_reason":null}]}\n\n',
        b'data: {"id":"x","choices":[],"usage":{"prompt_tokens":1,"completion_tokens":1}}\n\n',
        b": keep-alive\n\n", b"data: [DONE]\n\n", b"data:", b"\n", b"\n\n", b"\r\n\r\n",
        b'data: {"error":{"message":"x"}}\n\n', "data: é".encode()[:-1], b"event: x\ndata: {}\n\n",
    )
) | st.binary(max_size=12)  # fmt: skip


@FUZZ
@given(
    streams=st.lists(
        st.tuples(st.lists(EVENT, max_size=8), st.sampled_from(("end", "cut", "stall"))),
        min_size=1,
        max_size=6,
    )
)
@example(streams=[([b'data: {"error":{"message":"x"}}\n\n'], "end")])
def test_any_stream_of_an_engine_ends(streams: list[tuple[list[bytes], str]]) -> None:
    async def work(r: Rig) -> None:
        (decoder,) = r.decoders
        for events, how in streams:

            async def answer(
                request: Request, response: Response, events: Any = events, how: str = how
            ) -> None:
                response.start()
                for event in events:
                    if event:
                        await response.chunk(event)
                        await asyncio.sleep(0)
                if how == "end":
                    response.end()
                elif how == "cut":
                    response.reset()
                else:
                    await asyncio.Event().wait()

            decoder.http.handler = answer
            reply = await r.complete("p", stream=True)
            assert reply.whole
            if reply.status != 200:
                assert reply.error["message"]
                continue
            assert b"data: [DONE]" in reply.body
        decoder.http.handler = decoder._serve

    run(work)
