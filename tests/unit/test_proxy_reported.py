"""What was reported of routers of this kind, one test each: here it does not happen."""

import asyncio
import json
from typing import Any

import pytest

from pd_shared import labels
from tests.engine_sim import PREFILLER, Engine, answers
from tests.engine_sim.client import Client, Reply, ask
from tests.engine_sim.rig import Rig, completion, pod_of, rig, until

PATH = "/v1/completions"


def right(reply: Reply, prompt: str, count: int = 4) -> bool:
    return reply.status == 200 and reply.text() == "".join(answers.tokens(prompt, count))


def retries(r: Rig) -> float:
    return sum(r.proxy.metrics.retries.values.values())


async def test_a_decode_without_max_tokens_stays_without() -> None:
    async with rig() as r:
        reply = await ask(r.port, PATH, {"model": "tiny", "prompt": "p"})
        assert right(reply, "p", answers.DEFAULT_TOKENS)
        assert not {"max_tokens", "max_completion_tokens"} & set(r.decoders[0].seen[0].body)
        assert r.prefillers[0].seen[0].body["max_tokens"] == 1


async def test_the_first_token_does_not_wait_for_the_last() -> None:
    async with rig() as r:
        r.decoders[0].faults.stall_after_tokens = 1
        client = await Client.open(r.port)
        client.post(PATH, completion("p", stream=True))
        assert (await client.head())[0] == 200
        event = json.loads((await client.chunk()).removeprefix(b"data: "))
        assert event["choices"][0]["text"] == answers.tokens("p", 1)[0]
        assert r.decoders[0].running == 1
        client.abort()


async def test_an_aborted_prefill_that_says_200_is_no_prefill() -> None:
    async with rig() as r:
        r.prefillers[0].draining = True
        assert right(await r.complete("p"), "p")
        assert r.decoders[0].sources["external_kv_transfer"] == 0


@pytest.mark.parametrize("body", [b'{"prompt":', b"[]", b'"x"', b"", b"\xff"])
async def test_what_is_no_json_reaches_no_engine(body: bytes) -> None:
    async with rig() as r:
        client = await Client.open(r.port)
        client.send("POST", PATH, body)
        reply = await client.reply()
        client.close()
        assert reply.status == 400
        assert reply.error["message"]
        assert not r.prefillers[0].seen
        assert not r.decoders[0].seen


async def test_a_prefill_that_fails_ends_its_decode_at_once() -> None:
    async with rig(prefillers=2) as r:
        r.decoders[0].faults.held = True
        for prefiller in r.prefillers:
            prefiller.faults.status_times = 1
        asking = asyncio.create_task(r.complete("p"))
        await until(lambda: r.decoders[0].aborted == 2)
        r.decoders[0].faults.held = False
        assert right(await asking, "p")


async def test_a_decode_that_fails_ends_its_prefill_at_once() -> None:
    async with rig(decoders=2) as r:
        r.prefillers[0].faults.held = True
        for decoder in r.decoders:
            decoder.faults.reset_times = 1
        asking = asyncio.create_task(r.complete("p"))
        await until(lambda: r.prefillers[0].aborted >= 1)
        r.prefillers[0].faults.held = False
        assert right(await asking, "p")
        await until(lambda: r.prefillers[0].running == 0)


@pytest.mark.parametrize("tier", ["prefiller", "decoder"])
async def test_a_backend_that_goes_takes_no_request_with_it(tier: str) -> None:
    async with rig(prefillers=2, decoders=2) as r:
        engines = r.prefillers if tier == "prefiller" else r.decoders
        for engine in engines:
            engine.faults.hang = True
        asking = [asyncio.create_task(r.complete(f"p{i}")) for i in range(10)]
        await until(lambda: sum(len(engine.seen) for engine in engines) == 10)
        engines[1].faults.hang = False
        r.remove(engines[0])
        stuck = list(engines[1].seen)  # those that are there already hang on
        done = 10 - len(stuck)
        await until(lambda: sum(task.done() for task in asking) >= done)
        r.update(engines[1], incarnation="2")
        replies = await asyncio.gather(*asking)
        assert all(right(reply, f"p{i}") for i, reply in enumerate(replies))


async def test_an_address_that_changes_without_a_dip_is_followed() -> None:
    async with rig() as r:
        assert right(await r.complete("p"), "p")
        old = r.decoders[0]
        new = Engine(old.tier, "other")
        await new.start()
        r.more.append(new)
        r.update(old, port=new.port)
        old.kill()
        assert right(await r.complete("q"), "q")
        assert len(new.seen) == 1
        assert retries(r) == 0


async def test_a_dead_backend_is_not_chosen_again_and_again() -> None:
    async with rig(decoders=2) as r:
        r.decoders[0].kill()
        for number in range(20):
            assert right(await r.complete(f"p{number}"), f"p{number}")
        assert retries(r) <= 2


async def test_connections_that_engines_close_when_idle_cost_nothing() -> None:
    async with rig() as r:
        for number in range(3):
            assert right(await r.complete(f"p{number}"), f"p{number}")
            for engine in (*r.prefillers, *r.decoders):
                for connection in list(engine.http.connections):
                    connection.transport.close()
            await r.learned()
        assert retries(r) == 0


async def test_a_decoder_that_refuses_frees_the_prefillers_kv() -> None:
    async with rig() as r:
        r.decoders[0].max_model_len = 3
        reply = await r.complete("one two three")
        assert reply.status == 400
        assert "contains 3 input tokens" in reply.error["message"]
        await until(lambda: r.prefillers[0].running == 0)
        await until(lambda: not r.prefillers[0].store.held)
        assert retries(r) == 0


async def test_each_attempt_has_a_request_id_of_its_own() -> None:
    async with rig(decoders=2) as r:
        for decoder in r.decoders:
            decoder.faults.status_times = 1
        reply = await ask(r.port, PATH, completion("p"), x_request_id="mine")
        assert right(reply, "p")
        assert reply.headers["x-request-id"] == "mine"
        ids = [seen.headers["x-request-id"] for d in r.decoders for seen in d.seen]
        assert len(ids) == len(set(ids)) == 3


@pytest.mark.parametrize("stream", [False, True])
async def test_there_are_as_many_logprobs_as_tokens(stream: bool) -> None:
    async with rig() as r:
        reply = await r.complete("p", logprobs=1, stream=stream)
        assert reply.headers["x-pd-prefiller"] == "prefiller-0"
        found: list[Any] = reply.events() if stream else [reply.json()]
        tokens = [t for one in found for t in one["choices"][0]["logprobs"]["tokens"]]
        assert tokens == answers.tokens("p", 4)


async def test_a_client_that_leaves_while_the_kv_moves_leaves_nothing_behind() -> None:
    async with rig() as r:
        r.decoders[0].faults.slow_kv = 3600.0
        client = await Client.open(r.port)
        client.post(PATH, completion("p", stream=True))
        await until(lambda: r.proxy.metrics.prefill.count)
        client.abort()
        await until(lambda: r.decoders[0].aborted == 1)
        await until(lambda: r.proxy.api.in_flight == 0)
        assert not any(b.in_flight or b.holders for b in r.proxy.backends.all())


async def test_a_prefiller_at_another_ones_address_is_another() -> None:
    """An address is used again by another pod: nothing of the first is believed of it."""
    async with rig() as r:
        assert right(await r.complete("p"), "p")
        old = r.prefillers[0]
        r.remove(old)
        old.kill()
        new = Engine(PREFILLER, "new", http_port=old.port, fixed_bootstrap_port=old.bootstrap_port)
        await new.start()
        r.more.append(new)
        r.proxy.backends.update([*r.pods(), pod_of(new)])
        await r.learned()
        assert right(await r.complete("q"), "q")
        params = r.decoders[0].seen[-1].body["kv_transfer_params"]
        assert params["remote_engine_id"] == new.store.engine_id
        assert r.decoders[0].sources["external_kv_transfer"] == 2


async def test_lost_kv_is_computed_again() -> None:
    async with rig(connector=labels.NIXL) as r:
        r.decoders[0].faults.slow_kv = 0.05
        asking = asyncio.create_task(r.complete("p"))
        await until(lambda: r.prefillers[0].store.held)
        r.prefillers[0].store.forget()
        assert right(await asking, "p")


async def test_a_load_that_fails_by_policy_is_dispatched_again() -> None:
    """kv_load_failure_policy "fail": the decoder's 500 before the first byte is saved."""
    async with rig() as r:
        r.decoders[0].recompute = False
        r.decoders[0].faults.slow_kv = 0.02
        asking = asyncio.create_task(r.complete("p"))
        await until(lambda: r.prefillers[0].store.held)
        r.prefillers[0].store.forget()
        r.decoders[0].faults.slow_kv = 0.0
        assert right(await asking, "p")
        assert retries(r) == 1
