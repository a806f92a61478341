"""More requests than the engines can take: a bounded queue, fair shares, early refusals."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from pd_proxy import memory, relay
from tests.engine_sim import answers
from tests.engine_sim.client import Client, Reply, ask
from tests.engine_sim.rig import Rig, completion, rig, until


def queue(**given: Any) -> dict[str, Any]:
    limits = {"size": 100, "timeout": 30.0, "perDecoder": 1, "perPrefiller": 100}
    return {"queue": {**limits, **given}}


def right(reply: Reply, prompt: str) -> bool:
    return reply.status == 200 and reply.text() == "".join(answers.tokens(prompt, 4))


def asking(r: Rig, prompt: str, **headers: str) -> asyncio.Task[Reply]:
    body = completion(prompt)
    return asyncio.create_task(ask(r.port, "/v1/completions", body, **headers))


async def waiting(r: Rig, count: int) -> None:
    await until(lambda: r.proxy.admission.waiting == count)


async def end(*tasks: asyncio.Task[Reply]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_requests_wait_for_their_turn_and_all_are_answered() -> None:
    async with rig(decoders=2, sections=queue(perDecoder=2), per_token=0.001) as r:
        most = 0

        async def watch() -> None:
            nonlocal most
            while True:
                most = max(most, sum(d.running for d in r.decoders))
                await asyncio.sleep(0)

        watching = asyncio.create_task(watch())
        prompts = [f"p{i}" for i in range(40)]
        replies = await asyncio.gather(*(r.complete(p) for p in prompts))
        watching.cancel()
        assert all(right(x, p) for x, p in zip(replies, prompts, strict=True))
        assert most == 4
        assert await r.metric("pd_proxy_queue_seconds_count") == 40
        assert await r.metric("pd_proxy_queued") == 0


async def test_a_flood_of_one_key_leaves_others_their_share() -> None:
    async with rig(sections=queue()) as r:
        r.decoders[0].faults.held = True
        first = asking(r, "first", authorization="Bearer flood")
        await until(lambda: r.decoders[0].seen)
        flood = []
        for i in range(10):
            flood.append(asking(r, f"flood{i}", authorization="Bearer flood"))
            await waiting(r, i + 1)
        quiet = asking(r, "quiet", authorization="Bearer quiet")
        await waiting(r, 11)
        assert await r.metric("pd_proxy_queued") == 11
        r.decoders[0].faults.held = False
        assert right(await quiet, "quiet")
        await asyncio.gather(first, *flood)
        order = [s.body["prompt"] for s in r.decoders[0].seen]
        assert order.index("quiet") <= 8  # with small prompts a turn has several
        assert order[1] == "flood0"


async def test_priority_is_kept_within_a_key() -> None:
    async with rig(sections=queue()) as r:
        r.decoders[0].faults.held = True
        tasks = [asking(r, "first")]
        await until(lambda: r.decoders[0].seen)
        for number, priority in enumerate(("low", "normal", "", "high")):
            headers = {"x_request_priority": priority} if priority else {}
            tasks.append(asking(r, f"{priority or 'none'}", **headers))
            await waiting(r, number + 1)
        r.decoders[0].faults.held = False
        await asyncio.gather(*tasks)
        order = [s.body["prompt"] for s in r.decoders[0].seen]
        assert order == ["first", "high", "normal", "none", "low"]


async def test_a_full_queue_is_429_with_retry_after() -> None:
    async with rig(sections=queue(size=2)) as r:
        r.decoders[0].faults.held = True
        tasks = [asking(r, "first")]
        await until(lambda: r.decoders[0].seen)
        tasks += [asking(r, f"p{i}") for i in range(2)]
        await waiting(r, 2)
        reply = await r.complete("one too many")
        assert reply.status == 429
        assert reply.error["type"] == "RateLimitError"
        assert int(reply.headers["retry-after"]) >= 1
        assert await r.metric("pd_proxy_shed_total", reason="queue_full") == 1
        assert await r.metric("pd_proxy_requests_total", outcome="overloaded") == 1
        r.decoders[0].faults.held = False
        assert all(x.status == 200 for x in await asyncio.gather(*tasks))


async def test_who_has_most_in_a_full_queue_makes_room() -> None:
    async with rig(sections=queue(size=3)) as r:
        r.decoders[0].faults.held = True
        first = asking(r, "first", authorization="Bearer a")
        await until(lambda: r.decoders[0].seen)
        flood = []
        for i in range(3):
            flood.append(asking(r, f"p{i}", authorization="Bearer a"))
            await waiting(r, i + 1)
        other = asking(r, "other", authorization="Bearer b")
        assert (await flood[2]).status == 429
        assert await r.metric("pd_proxy_shed_total", reason="queue_share") == 1
        r.decoders[0].faults.held = False
        assert right(await other, "other")
        assert all(x.status == 200 for x in await asyncio.gather(first, *flood[:2]))


async def test_who_waits_too_long_is_503() -> None:
    async with rig(sections=queue(timeout=0.1)) as r:
        r.decoders[0].faults.held = True
        first = asking(r, "first")
        await until(lambda: r.decoders[0].seen)
        reply = await r.complete("late")
        assert reply.status == 503
        assert int(reply.headers["retry-after"]) >= 1
        assert await r.metric("pd_proxy_shed_total", reason="queue_timeout") == 1
        r.decoders[0].faults.held = False
        assert right(await first, "first")
        assert right(await r.complete("next"), "next")


async def test_a_client_can_be_less_patient() -> None:
    async with rig(sections=queue()) as r:
        r.decoders[0].faults.hang = True
        first = asking(r, "first", x_request_timeout="0.3")
        await until(lambda: r.decoders[0].seen)
        assert (await asking(r, "p", x_request_timeout="0.1")).status == 503
        assert (await first).status == 504


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("x_request_priority", "urgent"),
        ("x_request_timeout", "soon"),
        ("x_request_timeout", "0"),
        ("x_request_timeout", "-1"),
        ("x_request_timeout", "1e9"),
        ("x_request_timeout", "1.x"),
        ("x_request_timeout", "99999999999"),
    ],
)
async def test_headers_that_make_no_sense_are_400(header: str, value: str) -> None:
    async with rig() as r:
        reply = await asking(r, "p", **{header: value})
        assert reply.status == 400
        assert header.replace("_", "-") in reply.error["message"]


async def test_who_leaves_the_queue_is_forgotten() -> None:
    async with rig(sections=queue()) as r:
        r.decoders[0].faults.held = True
        first = asking(r, "first")
        await until(lambda: r.decoders[0].seen)
        client = await Client.open(r.port)
        client.post("/v1/completions", completion("gone"))
        await waiting(r, 1)
        client.abort()
        await waiting(r, 0)
        r.decoders[0].faults.held = False
        assert right(await first, "first")
        assert right(await r.complete("next"), "next")
        assert [s.body["prompt"] for s in r.decoders[0].seen] == ["first", "next"]


async def test_prompts_that_wait_for_a_prefiller_hold_nobody_else_up() -> None:
    async with rig(sections=queue(perDecoder=4, perPrefiller=1)) as r:
        r.prefillers[0].faults.held = True
        tasks = [asking(r, "p0")]
        await until(lambda: r.prefillers[0].seen)
        tasks += [asking(r, f"p{i}") for i in range(1, 4)]
        await waiting(r, 3)
        # Two choices are the business of a decoder alone.
        assert (await ask(r.port, "/v1/completions", completion("two", n=2))).status == 200
        assert len(r.prefillers[0].seen) == 1
        r.prefillers[0].faults.held = False
        assert all(x.status == 200 for x in await asyncio.gather(*tasks))


async def test_a_prefill_that_is_done_makes_room_for_the_next() -> None:
    async with rig(sections=queue(perDecoder=4, perPrefiller=1)) as r:
        r.decoders[0].faults.stall_after_tokens = 1
        clients = [await Client.open(r.port) for _ in range(3)]
        for i, client in enumerate(clients):
            client.post("/v1/completions", completion(f"p{i}", stream=True))
            assert (await client.head())[0] == 200
        assert len(r.prefillers[0].seen) == 3
        for client in clients:
            client.close()


async def test_a_new_decoder_lets_those_in_who_wait() -> None:
    from tests.engine_sim import DECODER, Engine

    async with rig(sections=queue()) as r:
        r.decoders[0].faults.held = True
        first = asking(r, "first")
        await until(lambda: r.decoders[0].seen)
        second = asking(r, "second")
        await waiting(r, 1)
        await r.add(Engine(DECODER, "decoder-new"))
        assert right(await second, "second")
        await end(first)


async def test_without_a_decoder_nobody_waits() -> None:
    async with rig(sections=queue()) as r:
        r.remove(r.decoders[0])
        assert (await r.complete("p")).status == 503
        assert await r.metric("pd_proxy_requests_total", outcome="no_backend") == 1


async def test_short_memory_refuses_what_is_new() -> None:
    async with rig() as r:
        r.proxy._memory._most = 0
        r.proxy._memory.look()
        reply = await r.complete("p")
        assert reply.status == 503
        assert await r.metric("pd_proxy_shed_total", reason="memory") == 1
        r.proxy._memory._most = 1 << 50
        r.proxy._memory.look()
        assert right(await r.complete("p"), "p")


def test_the_containers_limit_is_found(tmp_path: Path) -> None:
    file = tmp_path / "memory.max"
    assert memory.limit((file,)) is None
    for text, found in (("max\n", None), ("1073741824\n", 1 << 30), (str(1 << 62), None)):
        file.write_text(text)
        assert memory.limit((tmp_path / "none", file)) == found
    assert 1 << 20 < memory.used() < 1 << 40
    without = memory.Memory(None)
    without.look()
    assert not without.scarce


async def test_long_answers_of_all_together_are_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay, "_ALL_HELD_BYTES", 10_000)
    async with rig() as r:
        prompts = [f"p{i}" for i in range(5)]
        replies = await asyncio.gather(*(r.complete(p, max_tokens=2000) for p in prompts))
        for reply, prompt in zip(replies, prompts, strict=True):
            assert reply.text() == "".join(answers.tokens(prompt, 2000))
            assert reply.headers.get("transfer-encoding") == "chunked"
        assert r.proxy.api._context.held.size == 0


@pytest.mark.parametrize("seed", range(4))
async def test_whatever_happens_no_place_is_lost(seed: int) -> None:
    """Each request ends once; afterwards nobody is counted, and all places are free again."""
    import random

    dice = random.Random(seed)
    sections = queue(size=8, timeout=0.3, perDecoder=3, perPrefiller=2)
    seconds = {"prefill": 0.3, "firstToken": 1.0, "betweenTokens": 0.3, "kvWait": 0.3}
    async with rig(
        prefillers=2, decoders=2, sections=sections, seconds=seconds, per_token=0.002
    ) as r:
        engines = [*r.prefillers, *r.decoders]

        async def one(number: int) -> Reply | None:
            headers = {"x_request_priority": dice.choice(("high", "normal", "low"))}
            headers["authorization"] = f"Bearer {dice.choice('abc')}"
            more = {"n": 2} if dice.random() < 0.2 else {}
            body = completion(f"p{number}", stream=dice.random() < 0.5, **more)
            asked = ask(r.port, "/v1/completions", body, **headers)
            try:
                async with asyncio.timeout(dice.choice((0.02, 0.1, 60.0, 60.0))):
                    return await asked
            except TimeoutError:
                return None

        tasks = []
        for number in range(150):
            tasks.append(asyncio.create_task(one(number)))
            await asyncio.sleep(0.004)
            if number % 10 == 0:
                faults = dice.choice(engines).faults
                faults.hang = not faults.hang
                dice.choice(engines).faults.status_times = dice.randrange(3)
        for engine in engines:
            engine.faults.hang = False
        replies = [reply for reply in await asyncio.gather(*tasks) if reply is not None]
        assert replies
        assert {reply.status for reply in replies} <= {200, 429, 500, 502, 503, 504}
        for reply in replies:
            if reply.status in (429, 503):
                assert int(reply.headers["retry-after"]) >= 1
        await until(lambda: r.proxy.api.in_flight == 0)
        admission = r.proxy.admission
        assert (admission._under_way, admission._prefilling, admission.waiting) == (0, 0, 0)
        assert r.proxy.metrics.queued == 0
        assert r.proxy.metrics.internal_errors == 0
        assert r.proxy.api._context.held.size == 0
        assert r.proxy._server.held == 0
        assert sum(r.proxy.metrics.requests.values.values()) == r.proxy.metrics.offered
