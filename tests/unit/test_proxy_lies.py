"""Engines that answer 200 with something that is no answer."""

import asyncio

import pytest

from pd_proxy import prefill
from tests.engine_sim import Engine, answers
from tests.engine_sim.client import Reply
from tests.engine_sim.rig import rig
from tests.engine_sim.wire import Request, Response


def answering(engine: Engine, body: bytes, times: int = -1, kind: str = "application/json") -> None:
    """Completions get this body, so many times."""
    honest = engine.http.handler
    left = times

    async def lie(request: Request, response: Response) -> None:
        nonlocal left
        if left == 0 or not request.path.startswith("/v1/"):
            await honest(request, response)
            return
        left -= 1
        response.send(200, body, kind)

    engine.http.handler = lie


def right(reply: Reply, prompt: str) -> bool:
    return reply.status == 200 and reply.text() == "".join(answers.tokens(prompt, 4))


LIES = [b"<html></html>", b"", b'{"id":"cmpl-1","choices":[{"te', b"[]", b"null", b"\xff\xfe"]


@pytest.mark.parametrize("body", LIES)
async def test_a_decoders_answer_that_is_none_is_asked_for_again(body: bytes) -> None:
    async with rig() as r:
        answering(r.decoders[0], body, times=1)
        assert right(await r.complete("p"), "p")
        assert await r.metric("pd_proxy_retries_total", reason="decode_invalid") == 1


async def test_a_decoder_that_only_lies_is_no_answer() -> None:
    async with rig() as r:
        answering(r.decoders[0], b"<html></html>", kind="text/html")
        reply = await r.complete("p")
        assert reply.status == 502
        assert "decode_invalid" in reply.error["message"]
        assert await r.metric("pd_proxy_requests_total", outcome="upstream_error") == 1


@pytest.mark.parametrize("body", LIES)
async def test_a_prefillers_answer_that_is_none_is_not_believed(body: bytes) -> None:
    async with rig() as r:
        answering(r.prefillers[0], body, times=1)
        assert right(await r.complete("p"), "p")
        assert await r.metric("pd_proxy_retries_total", reason="prefill_invalid") == 1


async def test_a_prefiller_that_does_not_stop_talking(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(prefill, "_MOST_BYTES", 100_000)
    async with rig() as r:
        honest = r.prefillers[0].http.handler
        sent = 0

        async def talk(request: Request, response: Response) -> None:
            nonlocal sent
            if not request.path.startswith("/v1/"):
                await honest(request, response)
                return
            response.start("application/json")
            while True:
                await response.chunk(b"x" * 10_000)
                sent += 10_000
                await asyncio.sleep(0)

        r.prefillers[0].http.handler = talk
        reply = await r.complete("p")
        assert right(reply, "p")
        assert "x-pd-prefiller" not in reply.headers
        assert sent < 100_000_000


async def test_a_redirect_is_not_followed() -> None:
    async with rig() as r:
        honest = r.decoders[0].http.handler

        async def elsewhere(request: Request, response: Response) -> None:
            if request.path.startswith("/v1/"):
                response.send(307, b"", "text/plain")
            else:
                await honest(request, response)

        r.decoders[0].http.handler = elsewhere
        before = len(r.decoders[0].seen)
        assert (await r.complete("p")).status == 502
        assert len(r.decoders[0].seen) == before
