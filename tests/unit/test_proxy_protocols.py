"""Each connector's protocol between simulated engines, and what goes wrong in it."""

import asyncio
from typing import Any

import pytest

from pd_proxy.protocols import protocols
from pd_proxy.protocols.store import Saves, read_saves
from pd_shared import labels
from tests.engine_sim import DECODER, PREFILLER, Engine, SharedStore, answers
from tests.engine_sim.client import Client, Reply, get
from tests.engine_sim.rig import Rig, completion, rig, until

LONG = " ".join(f"w{i}" for i in range(600))
"""Two whole chunks, and a rest."""
STORES = [labels.MOONCAKE_STORE, labels.LMCACHE, labels.LMCACHE_MP]


def right(reply: Reply, prompt: str, count: int = 4) -> bool:
    return reply.status == 200 and reply.text() == "".join(answers.tokens(prompt, count))


def quiet(r: Rig) -> bool:
    backends = r.proxy.backends.all()
    return (
        r.proxy.api.in_flight == 0
        and not any(b.in_flight or b.holders for b in backends)
        and not any(r.proxy.metrics.in_flight.values.values())
    )


def fallbacks(r: Rig) -> dict[str, float]:
    return r.proxy.metrics.fallbacks.values


async def test_every_connector_has_its_protocol() -> None:
    assert set(protocols()) == set(labels.CONNECTORS)


@pytest.mark.parametrize("connector", [c for c in labels.CONNECTORS if c != labels.COLOCATED])
@pytest.mark.parametrize("stream", [False, True])
async def test_pairs_answer_from_moved_kv(connector: str, stream: bool) -> None:
    shared = SharedStore() if connector in STORES else None
    async with rig(connector=connector, shared=shared) as r:
        await until(lambda: r.proxy.metrics.kv_moved.values)
        reply = await r.complete(LONG, stream=stream)
        assert right(reply, LONG)
        assert reply.headers["x-pd-prefiller"] == "prefiller-0"
        assert reply.headers["x-pd-decoder"] == "decoder-0"
        moved = 512 if shared else 600
        await until(lambda: r.proxy.metrics.kv_moved.values["decoder-0"] == moved)
        assert r.proxy.metrics.kv_expected.values == {"decoder-0": moved}
        assert fallbacks(r) == {}
        assert r.prefillers[0].store.held == {}
        await until(lambda: quiet(r))


async def test_multi_is_mooncakes_protocol() -> None:
    known = protocols()
    assert known[labels.MULTI] is known[labels.MOONCAKE_CONNECTOR]


async def test_nixl_bodies() -> None:
    async with rig(connector=labels.NIXL) as r:
        assert right(await r.complete("a b", kv_transfer_params={"do_remote_prefill": True}), "a b")
        (prefill,), (decode,) = r.prefillers[0].seen, r.decoders[0].seen
        assert prefill.body["kv_transfer_params"] == {
            "do_remote_decode": True, "do_remote_prefill": False, "remote_engine_id": None,
            "remote_block_ids": None, "remote_host": None, "remote_port": None,
        }  # fmt: skip
        assert (prefill.body["max_tokens"], prefill.body["min_tokens"]) == (1, 1)
        params = decode.body["kv_transfer_params"]
        assert params["remote_engine_id"] == r.prefillers[0].store.engine_id
        assert params["remote_block_ids"] == [[1, 2]]
        assert decode.body["max_tokens"] == 4
        assert prefill.headers["x-request-id"] == decode.headers["x-request-id"]


@pytest.mark.parametrize("connector", STORES)
async def test_store_bodies(connector: str) -> None:
    async with rig(connector=connector, shared=SharedStore()) as r:
        assert right(await r.complete("a b", kv_transfer_params={"x": 1}), "a b")
        (prefill,), (decode,) = r.prefillers[0].seen, r.decoders[0].seen
        assert "kv_transfer_params" not in prefill.body
        assert (prefill.body["max_tokens"], prefill.body["stream"]) == (1, False)
        assert decode.body == completion("a b")


@pytest.mark.parametrize("connector", [labels.NIXL, *STORES])
async def test_the_decoder_waits_for_the_prefill(connector: str) -> None:
    async with rig(connector=connector) as r:
        r.prefillers[0].faults.hang = True
        client = await Client.open(r.port)
        client.post("/v1/completions", completion("p", stream=True))
        await until(lambda: r.prefillers[0].seen)
        await asyncio.sleep(0.05)
        assert r.decoders[0].seen == []
        client.abort()
        await until(lambda: r.prefillers[0].aborted == 1)
        await until(lambda: quiet(r))


async def test_nixl_without_params_leaves_the_decoder_alone() -> None:
    async with rig(connector=labels.NIXL) as r:
        r.prefillers[0].faults.params_missing = True
        reply = await r.complete("p")
        assert right(reply, "p")
        assert "x-pd-prefiller" not in reply.headers
        assert "kv_transfer_params" not in r.decoders[0].seen[0].body
        assert fallbacks(r) == {"prefill_not_held": 1}


async def test_nixl_prefill_that_fails_is_done_elsewhere() -> None:
    async with rig(prefillers=2, connector=labels.NIXL) as r:
        r.prefillers[0].faults.status_times = -1
        replies = [await r.complete(f"p{i}", stream=True) for i in range(4)]
        assert all(right(x, f"p{i}") for i, x in enumerate(replies))
        assert all(x.headers["x-pd-prefiller"] == "prefiller-1" for x in replies)
        assert fallbacks(r) == {}


async def test_nixl_blocks_whose_lease_has_ended_are_computed_again() -> None:
    async with rig(connector=labels.NIXL, abort_seconds=0.05) as r:
        r.decoders[0].faults.slow_kv = 0.2
        assert right(await r.complete("one two"), "one two")
        assert r.prefillers[0].store.expired == 1
        assert r.decoders[0].sources["local_compute"] == 2


async def test_nixl_prefiller_gone_with_its_blocks() -> None:
    async with rig(prefillers=2, connector=labels.NIXL) as r:
        r.decoders[0].faults.hang = True
        asking = asyncio.create_task(r.complete("p"))
        await until(lambda: r.decoders[0].seen)
        holder = next(p for p in r.prefillers if p.seen)
        holder.kill()
        r.decoders[0].faults.hang = False
        r.remove(holder)
        reply = await asking
        assert right(reply, "p")
        assert reply.headers["x-pd-prefiller"] != holder.name
        assert await r.metric("pd_proxy_retries_total", reason="prefiller_gone") == 1


@pytest.mark.parametrize("connector", STORES)
@pytest.mark.parametrize(
    ("fault", "reason"),
    [
        ({"status_times": 1}, "prefill_status_500"),
        ({"reset_times": 1}, "prefill_connection_lost"),
        ({"garbage_times": 1}, "prefill_invalid"),
        ({"hang": True}, "prefill_timeout"),
    ],
)
async def test_a_store_prefill_that_fails_is_computed_by_the_decoder(
    connector: str, fault: dict[str, Any], reason: str
) -> None:
    async with rig(connector=connector, shared=SharedStore(), seconds={"prefill": 0.3}) as r:
        for name, value in fault.items():
            setattr(r.prefillers[0].faults, name, value)
        assert right(await r.complete("p"), "p")
        assert fallbacks(r) == {reason: 1}
        assert len(r.decoders[0].seen) == 1
        await until(lambda: quiet(r))


async def test_a_store_prefill_lost_to_many_costs_no_retry_budget() -> None:
    async with rig(connector=labels.MOONCAKE_STORE, shared=SharedStore()) as r:
        r.prefillers[0].faults.hang = True
        asking = [asyncio.create_task(r.complete(f"p{i}")) for i in range(100)]
        await until(lambda: len(r.prefillers[0].seen) == 100)
        r.prefillers[0].kill()
        assert all(right(x, f"p{i}") for i, x in enumerate(await asyncio.gather(*asking)))
        assert fallbacks(r) == {"prefill_connection_lost": 100}


async def test_a_store_keeps_what_its_dead_prefiller_has_saved() -> None:
    async with rig(connector=labels.MOONCAKE_STORE, shared=SharedStore()) as r:
        r.decoders[0].faults.slow_kv = 0.0
        r.decoders[0].faults.hang = True
        asking = asyncio.create_task(r.complete("p"))
        await until(lambda: r.decoders[0].seen)
        r.remove(r.prefillers[0])
        await asyncio.sleep(0.05)
        assert not asking.done()
        assert r.decoders[0].aborted == 0
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)


async def test_the_decode_waits_for_the_save() -> None:
    shared = SharedStore()
    async with rig(connector=labels.MOONCAKE_STORE, shared=shared) as r:
        assert right(await r.complete(LONG + " 0"), LONG + " 0")  # the counters are known now
        await until(lambda: shared.puts == 1)
        assert right(await r.complete(LONG + " 1"), LONG + " 1")
        shared.save_seconds = 0.1
        before = r.decoders[0].sources["external_kv_transfer"]
        assert right(await r.complete(LONG + " 2"), LONG + " 2")
        assert r.decoders[0].sources["external_kv_transfer"] == before + 512


async def test_a_save_that_does_not_come_delays_no_longer_than_it_may() -> None:
    shared = SharedStore()
    async with rig(connector=labels.MOONCAKE_STORE, shared=shared, seconds={"prefill": 0.3}) as r:
        for i in range(3):
            assert right(await r.complete(f"{LONG} {i}"), f"{LONG} {i}")
        shared.save_seconds = 3600.0
        assert right(await r.complete(LONG + " x"), LONG + " x")
        assert fallbacks(r) == {}


async def test_without_counters_nothing_waits() -> None:
    shared = SharedStore(save_seconds=3600.0, counted=False)
    async with rig(connector=labels.MOONCAKE_STORE, shared=shared, prefillers=1) as r:
        for i in range(3):
            assert right(await r.complete(f"{LONG} {i}"), f"{LONG} {i}")
        assert r.decoders[0].sources["external_kv_transfer"] == 0


def test_counters_of_saves() -> None:
    told = [("0", "save_exists", "ok", 4), ("1", "save_exists", "ok", 2),
            ("0", "save_put", "error", 1), ("0", "load_get", "ok", 9)]  # fmt: skip
    text = "".join(
        f'vllm:mooncake_store_operation_total{{engine="{engine}",model_name="m",'
        f'operation="{operation}",status="{status}"}} {value}.0\n'
        for engine, operation, status, value in told
    ).encode()
    assert read_saves(text) == Saves(6.0, 1.0)
    assert read_saves(b"vllm:generation_tokens_total 1\n") is None


@pytest.mark.parametrize("connector", [labels.NIXL, *STORES])
async def test_400_of_the_engine_is_passed_on_and_is_no_fallback(connector: str) -> None:
    async with rig(connector=connector, max_model_len=3) as r:
        reply = await r.complete("one two three")
        assert reply.status == 400
        assert "contains 3 input tokens" in reply.error["message"]
        assert fallbacks(r) == {}
        assert r.proxy.metrics.retries.values == {}


@pytest.mark.parametrize("connector", [labels.NIXL, *STORES])
async def test_400_of_the_prefiller_alone_is_not_believed(connector: str) -> None:
    async with rig(connector=connector) as r:
        r.prefillers[0].faults.status = 400
        r.prefillers[0].faults.status_times = -1
        reply = await r.complete("p")
        assert right(reply, "p")
        assert "x-pd-prefiller" not in reply.headers
        assert fallbacks(r) == {"prefill_rejected": 1}


@pytest.mark.parametrize("connector", [labels.NIXL, *STORES])
async def test_decoder_killed_after_the_prefill(connector: str) -> None:
    async with rig(decoders=2, connector=connector) as r:
        r.decoders[0].faults.hang = r.decoders[1].faults.hang = True
        asking = asyncio.create_task(r.complete("p"))
        await until(lambda: r.decoders[0].seen or r.decoders[1].seen)
        dead, other = sorted(r.decoders, key=lambda d: not d.seen)
        other.faults.hang = False
        dead.kill()
        reply = await asking
        assert right(reply, "p")
        assert reply.headers["x-pd-decoder"] == other.name


async def test_decoder_killed_during_the_prefill() -> None:
    async with rig(connector=labels.NIXL) as r:
        r.prefillers[0].faults.hang = True
        asking = asyncio.create_task(r.complete("p"))
        await until(lambda: r.prefillers[0].seen)
        other = await r.add(Engine(DECODER, "decoder-9", connector=labels.NIXL))
        r.prefillers[0].faults.hang = False
        r.decoders[0].kill()
        r.remove(r.decoders[0])
        reply = await asking
        assert right(reply, "p")
        assert reply.headers["x-pd-decoder"] == other.name


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"n": 2}, "n"),
        ({"prompt": ["a", "b"]}, "prompt_list"),
        ({"echo": True, "logprobs": 1}, "echo_logprobs"),
    ],
)
async def test_what_nixl_cannot_hand_over(more: dict[str, Any], reason: str) -> None:
    async with rig(connector=labels.NIXL) as r:
        reply = await r.complete(**{"prompt": "p", **more})
        assert reply.status == 200
        assert fallbacks(r) == {reason: 1}


async def test_several_sequences_can_load_from_a_store() -> None:
    async with rig(connector=labels.LMCACHE, shared=SharedStore()) as r:
        reply = await r.complete("p", n=2)
        assert reply.headers["x-pd-prefiller"] == "prefiller-0"
        assert r.prefillers[0].seen[0].body["n"] == 1
        assert r.decoders[0].seen[0].body["n"] == 2


async def test_a_whole_engine_answers_alone_and_that_is_no_fallback() -> None:
    async with rig(prefillers=0, connector=labels.COLOCATED) as r:
        for more in ({}, {"n": 2}, {"stream": True}, {"kv_transfer_params": {"x": 1}}):
            reply = await r.complete("p", **more)
            assert right(reply, "p")
            assert "x-pd-prefiller" not in reply.headers
        assert all("kv_transfer_params" not in s.body for s in r.decoders[0].seen)
        assert fallbacks(r) == {}
        assert r.proxy.metrics.kv_expected.values == r.proxy.metrics.kv_recomputed.values == {}


async def test_a_whole_engine_takes_what_pairs_cannot() -> None:
    async with rig() as r:
        whole = await r.add(Engine(DECODER, "whole", connector=labels.COLOCATED), "other")
        for _ in range(4):
            reply = await r.complete("p", n=2)
            assert reply.headers["x-pd-decoder"] == whole.name
        assert fallbacks(r) == {}


async def test_an_unknown_connector_is_not_paired_and_told(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with rig() as r:
        for tier in (PREFILLER, DECODER):
            await r.add(Engine(tier, f"strange-{tier}", connector="Pigeon"))
        for i in range(6):
            reply = await r.complete(f"p{i}")
            assert right(reply, f"p{i}")
            assert reply.headers["x-pd-prefiller"] == "prefiller-0"
            assert reply.headers["x-pd-decoder"] == "decoder-0"
        for tier in ("prefill", "decode"):
            assert await r.metric("pd_proxy_unknown_connector_backends", tier=tier) == 1
        said = "".join(capsys.readouterr())
        assert said.count("Pigeon") == 1


async def test_a_models_card_comes_from_a_decoder() -> None:
    async with rig() as r:
        for name in ("tiny", "org/tiny", "org%2Ftiny"):
            reply = await get(r.port, f"/v1/models/{name}")
            # vLLM itself has no such path: its own answer comes.
            assert reply.status == 404
            assert reply.headers["x-pd-decoder"] == "decoder-0"
            assert reply.json() == {"detail": "Not Found"}
        for path in (
            "/v1/models/..",
            "/v1/models/a/../../metrics",
            "/v1/models/%2e%2E/x",
            "/v1/models/",
        ):
            assert (await get(r.port, path)).status == 404
