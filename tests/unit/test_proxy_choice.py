"""The proxy's choice between simulated engines."""

import asyncio
from collections import Counter

from pd_proxy.kv_counters import read_load
from tests.engine_sim import answers
from tests.engine_sim.client import ask
from tests.engine_sim.engine import Engine
from tests.engine_sim.rig import Rig, completion, rig, until


def conversation(number: int, turns: int) -> str:
    """The prompt after so many turns: each begins with the one before."""
    return "".join(f"{number}/{turn} " + "word " * 200 for turn in range(turns))


async def converse(r: Rig, conversations: int, turns: int, **headers: str) -> list[list[str]]:
    """The prefillers of each conversation's turns."""
    where: list[list[str]] = [[] for _ in range(conversations)]
    for turn in range(1, turns + 1):
        replies = await asyncio.gather(
            *(
                ask(r.port, "/v1/completions", completion(conversation(i, turn)), **headers)
                for i in range(conversations)
            )
        )
        for found, reply in zip(where, replies, strict=True):
            assert reply.status == 200
            found.append(reply.headers["x-pd-prefiller"])
    return where


def cached(engines: list[Engine]) -> float:
    """The part of all prompts' bytes that an engine had seen at the same place before."""
    hits = total = 0
    for engine in engines:
        known: list[str] = []
        for seen in engine.seen:
            prompt = str(seen.body["prompt"])
            total += len(prompt)
            hits += max((len(p) for p in known if prompt.startswith(p)), default=0)
            known.append(prompt)
    return hits / total


async def test_conversations_stay_where_their_cache_is() -> None:
    rates = {}
    for aware in (True, False):
        async with rig(prefillers=4, decoders=2, routing={"prefixAware": aware}) as r:
            where = await converse(r, conversations=8, turns=6)
            rates[aware] = cached(r.prefillers)
            assert len({name for found in where for name in found}) == 4
    assert rates[True] > 0.6
    assert rates[True] > rates[False] + 0.1


async def test_two_proxies_agree_without_a_word() -> None:
    async with rig(prefillers=4, decoders=2) as r, rig(prefillers=4, decoders=2) as other:
        for i in range(12):
            body = completion(conversation(i, 3))
            one = await ask(r.port, "/v1/completions", body)
            two = await ask(other.port, "/v1/completions", body)
            assert one.headers["x-pd-prefiller"] == two.headers["x-pd-prefiller"]


async def test_session_meets_the_same_pods() -> None:
    async with rig(prefillers=4, decoders=4) as r:
        for session in ("one", "two", "three"):
            pods = Counter[tuple[str, str]]()
            for i in range(8):
                reply = await ask(
                    r.port, "/v1/completions", completion(f"{i} a b"), x_session_id=session
                )
                pods[reply.headers["x-pd-prefiller"], reply.headers["x-pd-decoder"]] += 1
            assert len(pods) == 1, pods


async def test_short_prompts_are_spread() -> None:
    async with rig(prefillers=3, decoders=3) as r:
        await asyncio.gather(*(r.complete("a b") for _ in range(60)))
        for engine in (*r.prefillers, *r.decoders):
            assert len(engine.seen) >= 10


async def test_hot_prompt_overflows() -> None:
    async with rig(prefillers=4, decoders=2, prefill_per_token=0.0005) as r:
        await asyncio.gather(*(r.complete(conversation(0, 2)) for _ in range(40)))
        assert max(len(engine.seen) for engine in r.prefillers) <= 20
        assert min(len(engine.seen) for engine in r.prefillers) >= 1


async def test_a_restarted_prefiller_is_known_to_have_nothing() -> None:
    async with rig(prefillers=2, decoders=1) as r:
        prompt = conversation(0, 3)
        first = (await r.complete(prompt)).headers["x-pd-prefiller"]
        chooser = r.proxy.api._dispatcher._chooser
        assert len(chooser._prefixes) > 0
        engine = next(e for e in r.prefillers if e.name == first)
        await engine.restart()
        for backend in r.proxy.backends.all():
            if backend.pod.name == first:
                backend.doubt_engines()
        await until(lambda: len(chooser._prefixes) == 0)
        assert (await r.complete(prompt)).text() == "".join(answers.tokens(prompt, 4))


async def test_nothing_is_queued_when_all_is_answered() -> None:
    async with rig(prefillers=2, decoders=2) as r:
        r.prefillers[0].faults.status_times = 2
        r.prefillers[0].faults.status = 500
        await asyncio.gather(*(r.complete(conversation(i, 2)) for i in range(20)))
        for backend in r.proxy.backends.all():
            assert (backend.queued, backend.in_flight) == (0, 0)


def test_a_decoders_load_is_read_over_all_its_engines() -> None:
    text = (
        b'vllm:num_requests_running{engine="0",model_name="m"} 3.0\n'
        b'vllm:num_requests_running{engine="1",model_name="m"} 2.0\n'
        b'vllm:num_requests_waiting{engine="0",model_name="m"} 1.0\n'
        b'vllm:num_requests_waiting_by_reason{engine="0",reason="capacity"} 9.0\n'
        b'vllm:kv_cache_usage_perc{engine="0",model_name="m"} 0.25\n'
        b'vllm:kv_cache_usage_perc{engine="1",model_name="m"} 0.5\n'
    )
    assert read_load(text) == (0.5, 6)
    strange = b'vllm:num_requests_running{a="b"} -1\nvllm:num_requests_running{} 1e99\n'
    assert read_load(strange) == (0.0, 0)
