"""Prompts that a decoder computes itself."""

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pd_proxy.routing.local import Average, Observed, Speeds, Timed, local, only_text
from pd_shared import metrics as names
from tests.engine_sim import answers
from tests.engine_sim.client import ask
from tests.engine_sim.rig import Rig, rig, until

ON: dict[str, Any] = {"localPrefill": {"enabled": True, "maxTokens": 100}}


def test_short_and_sooner_done() -> None:
    speeds = Speeds(prefiller=1000.0, decoder=500.0, transfer=0.1)
    assert local(100, 200, 100, speeds)  # 0.2 s here, 0.3 s there
    assert not local(100, 50, 100, speeds)  # 0.15 s there
    assert not local(401, 10**9, 100, speeds)  # more than 100 tokens of 4 bytes
    assert local(100, 50, 100, Speeds())
    assert not local(401, 50, 100, Speeds())
    assert local(0, 0, 1, speeds)


@given(st.integers(0, 10**6), st.integers(0, 10**6), st.integers(1, 10**5), st.integers(0, 10**6))
def test_never_more_than_the_threshold(own: int, remote: int, most: int, transfer: int) -> None:
    speeds = Speeds(1000.0, 1000.0, float(transfer), 4.0)
    if local(own, remote, most, speeds):
        assert own <= 4 * most
        assert own <= remote + 1000 * transfer


def test_average_forgets() -> None:
    average = Average()
    assert average.get(0.0) is None
    average.add(10.0, 0.0)
    average.add(20.0, 1.0)
    assert average.get(60.0) == 11.0
    assert average.get(61.5) is None
    average.add(5.0, 100.0)
    assert average.get(100.0) == 5.0


def test_attempts_tell_the_speeds() -> None:
    seen = Observed()
    pair = Timed(seen, pair=True, stream=True, size=400, work=1000, now=10.0)
    pair.prefilled(200, 12.0)
    pair.begun(12.5)
    alone = Timed(seen, pair=False, stream=True, size=100, work=100, now=13.0)
    alone.begun(13.5)
    assert seen.speeds(14.0) == Speeds(500.0, 200.0, 0.5, 2.0)
    # One in one piece begins at its end, which tells nothing.
    Timed(seen, pair=False, stream=False, size=100, work=100, now=13.0).begun(99.0)
    assert seen.speeds(14.0) == Speeds(500.0, 200.0, 0.5, 2.0)


@pytest.mark.parametrize(
    ("messages", "text"),
    [
        ([{"role": "user", "content": "a"}, {"role": "assistant", "content": None}], True),
        ([{"role": "user", "content": [{"type": "image_url"}]}], False),
        (["a"], False),
        ("a", False),
    ],
)
def test_only_text_tells_its_tokens(messages: Any, text: bool) -> None:
    assert only_text(messages) is text


async def local_count(r: Rig) -> float:
    return await r.metric(names.FALLBACKS, reason="local_prefill")


async def test_short_prompts_stay_at_the_decoder_and_long_ones_do_not() -> None:
    async with rig(routing=ON, prefill_per_token=0.002) as r:
        reply = await r.complete("one two three")
        assert reply.text() == "".join(answers.tokens("one two three", 4))
        assert "x-pd-prefiller" not in reply.headers
        assert r.prefillers[0].seen == []
        assert "kv_transfer_params" not in r.decoders[0].seen[0].body
        assert await local_count(r) == 1
        assert (await r.complete("word " * 300)).headers["x-pd-prefiller"] == "prefiller-0"
        assert await local_count(r) == 1


async def test_the_next_turn_stays_where_the_last_one_is_cached() -> None:
    async with rig(routing=ON) as r:
        await r.complete("word " * 620, stream=True)
        # As measured here a prefiller takes no time: make it one that does.
        r.proxy.api._dispatcher._observed = Observed()
        reply = await r.complete("word " * 620 + "more", stream=True)
        assert "x-pd-prefiller" not in reply.headers
        assert len(r.prefillers[0].seen) == 1


async def test_it_is_off_by_default() -> None:
    async with rig() as r:
        assert (await r.complete("a")).headers["x-pd-prefiller"] == "prefiller-0"


async def test_pictures_go_to_a_prefiller() -> None:
    async with rig(routing=ON) as r:
        content = [{"type": "text", "text": "what is it?"}]
        body = {"model": "tiny", "messages": [{"role": "user", "content": content}]}
        await ask(r.port, "/v1/chat/completions", {**body, "max_tokens": 2})
        assert len(r.prefillers[0].seen) == 1


async def test_no_kv_is_expected_and_no_prefill_measured() -> None:
    async with rig(routing=ON) as r:
        await until(lambda: r.proxy.metrics.kv_moved.values)
        await asyncio.gather(*(r.complete("a b c", stream=True) for _ in range(5)))
        assert await local_count(r) == 5
        assert r.proxy.metrics.kv_expected.values == {}
        assert r.proxy.metrics.prefill.count == 0
        assert r.proxy.metrics.ttft.count == 5
        assert r.proxy.metrics.in_flight.values == {"prefill": 0, "decode": 0}


async def test_a_decoder_that_fails_is_replaced() -> None:
    async with rig(decoders=2, routing=ON) as r:
        for engine in r.decoders:
            engine.faults.reset_times = 1
        replies = await asyncio.gather(*(r.complete("a b c") for _ in range(4)))
        assert [reply.status for reply in replies] == [200] * 4
        assert r.prefillers[0].seen == []
