"""KV that is held for a decoder that will never fetch it."""

import asyncio
import json

import pytest

from pd_proxy.orphans import NO_MODEL
from pd_shared import labels
from tests.engine_sim import Engine, shapes
from tests.engine_sim.kv import Fetcher, fetch_at
from tests.engine_sim.rig import Rig, rig, until
from tests.engine_sim.wire import Request, Response

CONNECTORS = [labels.MOONCAKE_CONNECTOR, labels.NIXL]


def rejecting(engine: Engine) -> None:
    """As vLLM: who rejects a request that was to fetch KV tells the prefiller to free it."""
    known = engine.http.handler

    async def serve(request: Request, response: Response) -> None:
        body = json.loads(request.body) if request.path == "/v1/completions" else {}
        if body.get("model") != NO_MODEL:
            await known(request, response)
            return
        params = body["kv_transfer_params"]
        if "transfer_id" in params:
            wanted = ("remote_bootstrap_addr", "remote_engine_id", "transfer_id")
            await Fetcher(1.0).fetch(*(params[key] for key in wanted))
        else:
            wanted = ("remote_host", "remote_port", "remote_request_id")
            await fetch_at(*(params[key] for key in wanted))
        response.send(404, shapes.error(404, "there is no such model"))

    engine.http.handler = serve


def held(r: Rig) -> bool:
    return bool(r.prefillers[0].store.held) and bool(r.proxy.metrics.prefill.count)


async def orphaned(r: Rig) -> tuple[asyncio.Task[object], Engine]:
    """A request whose KV is held while its decoder dies; the other decoder, if any."""
    for decoder in r.decoders:
        decoder.faults.slow_kv = 3600.0
    asking = asyncio.create_task(r.complete("p"))
    await until(lambda: held(r) and any(d.seen for d in r.decoders))
    for decoder in r.decoders:
        decoder.faults.slow_kv = 0.0
    (dying,) = [d for d in r.decoders if d.seen]
    dying.kill()
    return asking, dying


@pytest.mark.parametrize("connector", CONNECTORS)
async def test_another_decoder_lets_it_go(connector: str) -> None:
    async with rig(decoders=2, connector=connector) as r:
        for decoder in r.decoders:
            rejecting(decoder)
        asking, _ = await orphaned(r)
        reply = await asking
        assert getattr(reply, "status", None) == 200
        await until(lambda: not r.prefillers[0].store.held)
        await until(lambda: r.proxy.metrics.orphans.values["freed"] == 1)
        assert await r.metric("pd_proxy_orphaned_handoffs_total", outcome="left") == 0
        # It was no request of anybody's.
        assert await r.metric("pd_proxy_requests_offered_total") == 1


async def test_without_another_decoder_it_is_left_to_the_prefillers_timeout() -> None:
    async with rig(seconds={"firstToken": 1.0}) as r:
        asking, _ = await orphaned(r)
        await asking
        assert r.proxy.metrics.orphans.values == {"freed": 0, "left": 1}


async def test_what_a_dead_prefiller_held_is_nobodys_matter() -> None:
    async with rig(prefillers=2, decoders=2) as r:
        for decoder in r.decoders:
            decoder.faults.slow_kv = 3600.0
        asking = asyncio.create_task(r.complete("p"))
        await until(lambda: any(p.store.held for p in r.prefillers))
        await until(lambda: r.proxy.metrics.prefill.count)
        for decoder in r.decoders:
            decoder.faults.slow_kv = 0.0
        (holding,) = [p for p in r.prefillers if p.store.held]
        holding.kill()
        r.remove(holding)
        assert (await asking).status == 200
        assert r.proxy.metrics.orphans.values == {"freed": 0, "left": 0}


async def test_a_client_that_leaves_costs_no_second_request() -> None:
    """The decoder has the request: it lets the KV go by itself when it is told of the end."""
    async with rig(decoders=2) as r:
        for decoder in r.decoders:
            decoder.faults.slow_kv = 3600.0
        asking = asyncio.create_task(r.complete("p"))
        await until(lambda: held(r))
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        await until(lambda: sum(d.aborted for d in r.decoders) == 1)
        await until(lambda: r.proxy.api.in_flight == 0)
        assert r.proxy.metrics.orphans.values == {"freed": 0, "left": 0}
