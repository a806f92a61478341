"""The official client of OpenAI's API, used as its users do."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import openai
import pytest
from openai import AsyncOpenAI

from tests.engine_sim import answers
from tests.engine_sim.rig import Rig, rig, until

MESSAGES: Any = [{"role": "user", "content": "one two"}]
PROMPT = "user: one two"


def said(prompt: str, count: int) -> str:
    return "".join(answers.tokens(prompt, count))


@asynccontextmanager
async def client(r: Rig, **more: Any) -> AsyncIterator[AsyncOpenAI]:
    options: dict[str, Any] = {"api_key": "sk-any", "max_retries": 0, **more}
    made = AsyncOpenAI(base_url=f"http://127.0.0.1:{r.port}/v1", **options)
    try:
        yield made
    finally:
        await made.close()


async def test_chats() -> None:
    async with rig() as r, client(r) as c:
        answer = await c.chat.completions.create(model="tiny", messages=MESSAGES, max_tokens=5)
        assert answer.choices[0].message.content == said(PROMPT, 5)
        assert answer.usage is not None
        assert answer.usage.completion_tokens == 5
        raw = await c.chat.completions.with_raw_response.create(
            model="tiny", messages=MESSAGES, max_tokens=2, extra_headers={"x-request-id": "mine"}
        )
        assert raw.headers["x-request-id"] == "mine"
        assert raw.headers["x-pd-prefiller"] == "prefiller-0"


async def test_streams() -> None:
    async with rig() as r, client(r) as c:
        chat = await c.chat.completions.create(
            model="tiny", messages=MESSAGES, max_tokens=5, stream=True,
            stream_options={"include_usage": True},
        )  # fmt: skip
        text, usage = "", None
        async for chunk in chat:
            text += "".join(choice.delta.content or "" for choice in chunk.choices)
            usage = chunk.usage or usage
        assert text == said(PROMPT, 5)
        assert usage is not None
        assert usage.completion_tokens == 5
        completion = await c.completions.create(model="tiny", prompt="p", max_tokens=3, stream=True)
        assert "".join([x.choices[0].text async for x in completion]) == said("p", 3)


async def test_a_stream_that_is_left_ends_on_the_engine() -> None:
    async with rig(per_token=0.01) as r, client(r) as c:
        stream = await c.completions.create(model="tiny", prompt="p", max_tokens=1000, stream=True)
        async for _ in stream:
            break
        await stream.close()
        await until(lambda: r.decoders[0].aborted == 1)


async def test_an_engine_lost_in_a_stream_is_an_error_of_the_client() -> None:
    async with rig() as r, client(r) as c:
        r.decoders[0].faults.die_after_tokens = 2
        stream = await c.completions.create(model="tiny", prompt="p", max_tokens=9, stream=True)
        parts: list[str] = []

        async def read() -> None:
            async for chunk in stream:
                parts.append(chunk.choices[0].text)

        with pytest.raises(openai.APIError, match="the engine was lost while it answered"):
            await read()
        assert "".join(parts) == said("p", 2)


async def test_models() -> None:
    async with rig() as r, client(r) as c:
        assert [model.id async for model in c.models.list()] == ["tiny"]


async def test_errors_are_those_of_the_client(tmp_path: Path) -> None:
    (tmp_path / "acme").write_text("sk-good")
    sections = {
        "apiKeys": {"folder": str(tmp_path), "isolateCache": True},
        "queue": {"size": 0, "timeout": 1.0, "perDecoder": 1, "perPrefiller": 1},
    }
    async with rig(sections=sections) as r:
        async with client(r) as c:
            with pytest.raises(openai.AuthenticationError, match="the API key is not valid"):
                await c.completions.create(model="tiny", prompt="p")
        async with client(r, api_key="sk-good") as c:
            assert (await c.completions.create(model="tiny", prompt="p")).choices
            with pytest.raises(openai.BadRequestError):
                await c.chat.completions.create(
                    model="tiny", messages=MESSAGES, extra_headers={"x-request-priority": "now"}
                )
            with pytest.raises(openai.NotFoundError):
                await c.post("/load_lora_adapter", cast_to=object)
            r.decoders[0].faults.hang = True
            with pytest.raises(openai.APITimeoutError):
                await c.completions.create(model="tiny", prompt="p", timeout=0.2)
            await until(lambda: r.proxy.api.in_flight == 0)


async def test_who_is_told_to_come_again_does() -> None:
    sections = {"queue": {"size": 0, "timeout": 1.0, "perDecoder": 1, "perPrefiller": 1}}
    async with rig(sections=sections) as r, client(r) as c, client(r, max_retries=3) as patient:
        r.decoders[0].faults.held = True
        first = asyncio.create_task(
            c.completions.create(model="tiny", prompt="first", max_tokens=1)
        )
        await until(lambda: r.decoders[0].seen)
        with pytest.raises(openai.RateLimitError) as caught:
            await c.completions.create(model="tiny", prompt="p")
        assert int(caught.value.response.headers["retry-after"]) >= 1
        second = asyncio.create_task(
            patient.completions.create(model="tiny", prompt="second", max_tokens=1)
        )
        await until(lambda: r.proxy.metrics.shed.values["queue_full"] == 2)
        r.decoders[0].faults.held = False
        assert (await first).choices[0].text == said("first", 1)
        assert (await second).choices[0].text == said("second", 1)
