"""Through the proxy as from the engine, byte for byte; and the official client's own calls."""

from typing import Any

import httpx2
import openai
import pytest

from pd_shared import labels
from tests.conformance import corpus
from tests.engine_sim import answers
from tests.engine_sim.client import Client, Reply
from tests.engine_sim.rig import Rig, rig

ALL = {**corpus.ANSWERED, **corpus.TOOLS, **corpus.REFUSED}
OWN = {"x-request-id", "x-pd-prefiller", "x-pd-decoder"}


async def sent(port: int, path: str, body: bytes) -> Reply:
    client = await Client.open(port)
    try:
        client.send("POST", path, body, content_type="application/json", x_request_id="same")
        return await client.reply()
    finally:
        client.close()


@pytest.mark.parametrize(
    "connector", [labels.MOONCAKE_CONNECTOR, labels.NIXL, labels.COLOCATED], ids=str
)
async def test_answers_are_the_engines_own_bytes(connector: str) -> None:
    prefillers = 0 if connector == labels.COLOCATED else 1
    async with rig(prefillers=prefillers, connector=connector, max_model_len=4096) as r:
        for name, (path, body) in ALL.items():
            direct = await sent(r.decoders[0].port, path, body)
            proxied = await sent(r.port, path, body)
            assert proxied.status == direct.status, name
            assert proxied.status == (200 if name not in corpus.REFUSED else direct.status), name
            assert proxied.body == direct.body, name
            left = {k: v for k, v in proxied.headers.items() if k not in OWN}
            # An answer in one piece may be passed on as it comes.
            framing = ("content-length", "transfer-encoding")
            assert {k: v for k, v in left.items() if k not in framing} == {
                k: v for k, v in direct.headers.items() if k not in framing
            }, name


async def test_the_corpus_goes_through_pairs() -> None:
    """Or the equality above would say nothing of transfers."""
    async with rig(max_model_len=4096) as r:
        alone = []
        for name, (path, body) in corpus.ANSWERED.items():
            reply = await sent(r.port, path, body)
            if "x-pd-prefiller" not in reply.headers:
                alone.append(name)
        assert all(", n" in n or ", list" in n or "echo, logprobs" in n for n in alone), alone
        assert r.decoders[0].sources["external_kv_transfer"] > 50


def client(r: Rig, key: str = "none") -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(
        base_url=f"http://127.0.0.1:{r.port}/v1",
        api_key=key,
        max_retries=0,
        http_client=httpx2.AsyncClient(trust_env=False),
    )


MESSAGES: Any = [{"role": "user", "content": "Hello 🦊"}]
PROMPT = "user: Hello 🦊"


async def test_the_official_client_completes() -> None:
    async with rig() as r, client(r) as api:
        made = await api.completions.create(model="tiny", prompt="a b", max_tokens=3, logprobs=2)
        assert made.choices[0].text == "".join(answers.tokens("a b", 3))
        assert made.choices[0].logprobs is not None
        assert made.usage is not None
        assert made.usage.completion_tokens == 3
        stream = await api.completions.create(
            model="tiny", prompt="a b", max_tokens=3, stream=True,
            stream_options={"include_usage": True},
        )  # fmt: skip
        parts = [part async for part in stream]
        assert "".join(p.choices[0].text for p in parts[:-1]) == made.choices[0].text
        assert parts[-1].usage is not None
        several = await api.completions.create(model="tiny", prompt=["a", "b"], max_tokens=2, n=2)
        assert [c.index for c in several.choices] == [0, 1, 2, 3]


async def test_the_official_client_chats() -> None:
    async with rig() as r, client(r) as api:
        made = await api.chat.completions.create(model="tiny", messages=MESSAGES, max_tokens=4)
        text = "".join(answers.tokens(PROMPT, 4))
        assert made.choices[0].message.content == text
        assert made.choices[0].finish_reason == "length"
        stream = await api.chat.completions.create(
            model="tiny", messages=MESSAGES, max_tokens=4, stream=True
        )
        said = [part.choices[0].delta.content or "" async for part in stream]
        assert "".join(said) == text
        async with api.chat.completions.stream(model="tiny", messages=MESSAGES) as events:
            kinds = {event.type async for event in events}
            final = await events.get_final_completion()
        assert {"chunk", "content.delta", "content.done"} <= kinds
        assert final.choices[0].message.content == "".join(answers.tokens(PROMPT, 16))
        raw = await api.chat.completions.with_raw_response.create(
            model="tiny", messages=MESSAGES, max_tokens=4
        )
        assert raw.headers["x-pd-prefiller"] == "prefiller-0"
        assert raw.headers["x-request-id"]


async def test_the_official_client_calls_tools() -> None:
    tools: Any = [{"type": "function", "function": {"name": "weather", "parameters": {}}}]
    async with rig() as r, client(r) as api:
        made = await api.chat.completions.create(
            model="tiny", messages=MESSAGES, tools=tools, tool_choice="required"
        )
        calls = made.choices[0].message.tool_calls
        assert calls is not None
        call = calls[0]
        assert call.type == "function"
        assert call.function.name == "weather"
        assert made.choices[0].finish_reason == "tool_calls"


async def test_the_official_client_lists_models() -> None:
    async with rig() as r, client(r) as api:
        assert [model.id async for model in api.models.list()] == ["tiny"]
        with pytest.raises(openai.NotFoundError):  # vLLM has no such path
            await api.models.retrieve("tiny")


async def test_the_official_client_understands_errors() -> None:
    async with rig(max_model_len=8) as r, client(r) as api:
        with pytest.raises(openai.BadRequestError) as refused:
            await api.completions.create(model="tiny", prompt="word " * 50)
        assert refused.value.param == "input_tokens"
        with pytest.raises(openai.NotFoundError) as unknown:
            await api.chat.completions.create(model="nobody", messages=MESSAGES)
        assert unknown.value.type == "NotFoundError"
        r.decoders[0].faults.status_times = -1
        with pytest.raises(openai.InternalServerError):
            await api.completions.create(model="tiny", prompt="a", max_tokens=2)
        r.decoders[0].faults.status_times = 0
        r.decoders[0].faults.die_after_tokens = 2
        stream = await api.completions.create(model="tiny", prompt="a", max_tokens=4, stream=True)
        with pytest.raises(openai.APIError):
            async for _ in stream:
                pass
        r.remove(r.decoders[0])
        with pytest.raises(openai.InternalServerError) as gone:
            await api.completions.create(model="tiny", prompt="a")
        assert gone.value.status_code == 503
