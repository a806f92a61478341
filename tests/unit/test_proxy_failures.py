"""Engines that fail under a request: each request ends once, right or with one clear error."""

import asyncio
import json
from typing import Any

import pytest

from pd_shared import labels
from tests.engine_sim import answers
from tests.engine_sim.client import Client, Reply
from tests.engine_sim.rig import Rig, completion, rig, until

TINY = {"prefill": 0.3, "firstToken": 1.0, "betweenTokens": 0.3}


def right(reply: Reply, prompt: str, count: int = 4) -> bool:
    return reply.status == 200 and reply.text() == "".join(answers.tokens(prompt, count))


def quiet(r: Rig) -> bool:
    """Nothing is in flight anywhere."""
    backends = r.proxy.backends.all()
    return (
        r.proxy.api.in_flight == 0
        and not any(b.in_flight or b.holders for b in backends)
        and not any(r.proxy.metrics.in_flight.values.values())
    )


async def ask_stream(r: Rig, prompt: str, **more: Any) -> tuple[Client, bytes]:
    """A stream whose first event has come."""
    client = await Client.open(r.port)
    client.post("/v1/completions", completion(prompt, stream=True, **more))
    status, _ = await client.head()
    assert status == 200
    return client, await client.chunk()


async def rest_of(client: Client) -> bytes:
    parts = []
    while data := await client.chunk():
        parts.append(data)
    client.close()
    return b"".join(parts)


async def test_prefiller_restarted_before_the_request() -> None:
    async with rig() as r:
        assert right(await r.complete("first"), "first")
        before = r.prefillers[0].store.engine_id
        await r.prefillers[0].restart()
        # The broken idle connection tells; the watch has not yet.
        backend = next(b for b in r.proxy.backends.all() if b.pod.tier == "prefiller")
        await until(lambda: backend.engines and backend.engines[0].engine_id != before)
        assert right(await r.complete("second"), "second")
        seen = r.decoders[0].seen[-1].body["kv_transfer_params"]
        assert seen["remote_engine_id"] == r.prefillers[0].store.engine_id != before
        assert r.decoders[0].sources["external_kv_transfer"] == 2


async def test_prefiller_restarted_with_its_kv_unfetched() -> None:
    """The decoder would wait for 540 s; the watch tells that the process is gone."""
    async with rig() as r:
        r.decoders[0].faults.slow_kv = 3600.0
        asking = asyncio.create_task(r.complete("p"))
        await until(lambda: r.prefillers[0].store.held)
        await until(lambda: r.proxy.metrics.prefill.count)
        r.decoders[0].faults.slow_kv = 0.0
        await r.prefillers[0].restart()
        r.update(r.prefillers[0], incarnation="2")
        assert right(await asking, "p")
        assert r.decoders[0].aborted == 1
        first, second = (s.body["kv_transfer_params"] for s in r.decoders[0].seen)
        assert first["transfer_id"] != second["transfer_id"]
        assert second["remote_engine_id"] == r.prefillers[0].store.engine_id
        assert await r.metric("pd_proxy_retries_total", reason="prefiller_gone") == 1
        await until(lambda: quiet(r))


async def test_prefiller_restart_that_only_the_bootstrap_tells() -> None:
    async with rig() as r:
        r.decoders[0].faults.slow_kv = 3600.0
        asking = asyncio.create_task(r.complete("p"))
        await until(lambda: r.proxy.metrics.prefill.count)
        r.decoders[0].faults.slow_kv = 0.0
        await r.prefillers[0].restart()
        assert right(await asking, "p")


async def test_prefiller_killed_under_requests() -> None:
    async with rig(prefillers=2) as r:
        # Both hold their requests, or the one that answers might get them all.
        for prefiller in r.prefillers:
            prefiller.faults.held = True
        prompts = [f"p{i}" for i in range(30)]
        asking = [asyncio.create_task(r.complete(p, stream=True)) for p in prompts]
        await until(lambda: [len(p.seen) for p in r.prefillers] == [15, 15])
        r.prefillers[0].kill()
        r.prefillers[1].faults.held = False
        replies = await asyncio.gather(*asking)
        assert all(right(x, p) for x, p in zip(replies, prompts, strict=True))
        await until(lambda: quiet(r))


async def test_the_only_prefiller_killed_under_requests() -> None:
    async with rig() as r:
        r.prefillers[0].faults.hang = True
        asking = [asyncio.create_task(r.complete(f"p{i}")) for i in range(10)]
        await until(lambda: len(r.prefillers[0].seen) == 10)
        r.prefillers[0].kill()
        replies = await asyncio.gather(*asking)
        assert all(right(x, f"p{i}") for i, x in enumerate(replies))
        assert await r.metric("pd_proxy_fallbacks_total", reason="no_prefiller") == 10


async def test_decoder_killed_before_the_first_byte() -> None:
    async with rig(decoders=2) as r:
        for decoder in r.decoders:
            decoder.faults.held = True
        prompts = [f"p{i}" for i in range(20)]
        asking = [asyncio.create_task(r.complete(p, stream=True)) for p in prompts]
        await until(lambda: [len(d.seen) for d in r.decoders] == [10, 10])
        r.decoders[0].kill()
        r.decoders[1].faults.held = False
        replies = await asyncio.gather(*asking)
        assert all(right(x, p) for x, p in zip(replies, prompts, strict=True))
        await until(lambda: quiet(r))


async def test_the_only_decoder_killed_and_back_again() -> None:
    async with rig() as r:
        r.decoders[0].faults.hang = True
        asking = asyncio.create_task(r.complete("p"))
        await until(lambda: r.decoders[0].seen)
        r.decoders[0].kill()
        pod = next(b.pod for b in r.proxy.backends.all() if b.pod.tier == "decoder")
        r.remove(r.decoders[0])
        await until(lambda: r.proxy.metrics.retries.values)
        r.decoders[0].faults.hang = False
        await r.decoders[0].start()
        r.proxy.backends.update([*r.pods(), pod])
        assert right(await asking, "p")


async def test_decoder_killed_after_the_first_byte() -> None:
    async with rig() as r:
        r.decoders[0].faults.die_after_tokens = 2
        reply = await r.complete("p", stream=True)
        assert reply.status == 200
        assert reply.whole
        first, second, error = reply.events()
        assert [first["choices"][0]["text"], second["choices"][0]["text"]] == answers.tokens("p", 2)
        assert error["error"]["code"] == 502
        assert await r.metric("pd_proxy_requests_total", outcome="upstream_error") == 1
        await until(lambda: quiet(r))


async def test_a_cut_event_is_not_passed_on() -> None:
    async with rig() as r:
        r.decoders[0].faults.die_after_tokens = 2
        r.decoders[0].faults.cut_event = True
        reply = await r.complete("p", stream=True)
        assert len(reply.events()) == 3
        assert "error" in reply.events()[-1]


@pytest.mark.parametrize("fault", ["lost_after_done", "stall_after_done"])
async def test_nothing_comes_after_a_streams_end(fault: str) -> None:
    async with rig(seconds={"betweenTokens": 0.3}, per_token=0.001) as r:
        setattr(r.decoders[0].faults, fault, True)
        reply = await r.complete("p", stream=True)
        assert reply.whole
        assert right(reply, "p")
        assert await r.metric("pd_proxy_requests_total", outcome="ok") == 1
        await until(lambda: quiet(r))


async def test_a_stream_without_its_end_gets_an_error() -> None:
    async with rig() as r:
        r.decoders[0].faults.end_without_done_after = 3
        reply = await r.complete("p", stream=True)
        assert len(reply.events()) == 4
        assert "error" in reply.events()[-1]


async def test_decoder_gone_by_the_watch_ends_its_streams() -> None:
    async with rig() as r:
        r.decoders[0].faults.stall_after_tokens = 1
        client, first = await ask_stream(r, "p")
        assert first.startswith(b"data: ")
        r.remove(r.decoders[0])
        rest = await rest_of(client)
        assert b'"error"' in rest
        assert rest.endswith(b"data: [DONE]\n\n")
        await until(lambda: r.decoders[0].aborted == 1)
        await until(lambda: quiet(r))


async def test_hanging_prefiller_meets_its_deadline() -> None:
    async with rig(prefillers=2, seconds=TINY) as r:
        r.prefillers[0].faults.hang = True
        replies = [await r.complete(f"p{i}") for i in range(3)]
        assert all(right(x, f"p{i}") for i, x in enumerate(replies))
        assert await r.metric("pd_proxy_retries_total", reason="prefill_timeout") >= 1
        await until(lambda: r.prefillers[0].aborted == len(r.prefillers[0].seen))


async def test_hanging_decoder_meets_its_deadline() -> None:
    async with rig(seconds=TINY) as r:
        r.decoders[0].faults.hang = True
        reply = await r.complete("p", stream=True)
        assert reply.status == 504
        assert "decode_timeout" in reply.error["message"]
        assert await r.metric("pd_proxy_requests_total", outcome="timeout") == 1
        await until(lambda: r.decoders[0].aborted == 1)
        await until(lambda: quiet(r))


@pytest.mark.parametrize("connector", [labels.MOONCAKE_CONNECTOR, labels.NIXL])
async def test_kv_that_does_not_come_is_not_waited_for(connector: str) -> None:
    """Another dispatch does what the first one did not, long before the whole time is over."""
    seconds = {"kvWait": 0.3, "firstToken": 60.0}
    async with rig(prefillers=2, seconds=seconds, connector=connector) as r:
        r.decoders[0].faults.slow_kv = 3600.0
        asking = asyncio.create_task(r.complete("p", stream=True))
        await until(lambda: len(r.decoders[0].seen) == 1)
        r.decoders[0].faults.slow_kv = 0.0
        reply = await asking
        assert right(reply, "p")
        assert await r.metric("pd_proxy_retries_total", reason="kv_timeout") == 1
        first, second = (len(p.seen) for p in r.prefillers)
        assert (first, second) == (1, 1)
        assert r.decoders[0].aborted == 1
        await until(lambda: quiet(r))


async def test_kv_that_never_comes_ends_with_a_decoder_alone() -> None:
    async with rig(seconds={"kvWait": 0.2, "firstToken": 60.0}) as r:
        r.decoders[0].faults.slow_kv = 3600.0
        reply = await r.complete("p", stream=True)
        assert right(reply, "p")
        assert "x-pd-prefiller" not in reply.headers
        assert await r.metric("pd_proxy_fallbacks_total", reason="prefill_failed") == 1


async def test_stalled_stream_meets_its_deadline() -> None:
    async with rig(seconds=TINY) as r:
        r.decoders[0].faults.stall_after_tokens = 2
        reply = await r.complete("p", stream=True)
        assert reply.events()[-1]["error"]["code"] == 504
        await until(lambda: r.decoders[0].aborted == 1)


async def test_500_is_dispatched_again() -> None:
    async with rig() as r:
        r.decoders[0].faults.status_times = 1
        r.prefillers[0].faults.status_times = 1
        assert right(await r.complete("p"), "p")


async def test_lasting_500_is_passed_on() -> None:
    async with rig(decoders=2) as r:
        for decoder in r.decoders:
            decoder.faults.status_times = -1
        reply = await r.complete("p")
        assert reply.status == 500
        assert reply.error["message"] == "simulated"
        assert sum(len(d.seen) for d in r.decoders) == 3
        await until(lambda: quiet(r))


async def test_error_as_first_event_is_dispatched_again() -> None:
    async with rig(decoders=2) as r:
        r.decoders[0].faults.error_event_times = -1
        replies = [await r.complete(f"p{i}", stream=True) for i in range(4)]
        assert all(right(x, f"p{i}") for i, x in enumerate(replies))
        assert r.decoders[0].seen


async def test_a_lasting_error_as_first_event_is_passed_on() -> None:
    async with rig() as r:
        r.decoders[0].faults.error_event_times = -1
        reply = await r.complete("p", stream=True)
        assert reply.status == 200
        first, done, rest = reply.body.split(b"\n\n")
        assert json.loads(first.removeprefix(b"data: "))["error"]["message"] == "simulated"
        assert (done, rest) == (b"data: [DONE]", b"")


async def test_prefiller_that_answers_nonsense() -> None:
    async with rig() as r:
        r.prefillers[0].faults.garbage_times = 1
        assert right(await r.complete("p"), "p")
        assert await r.metric("pd_proxy_retries_total", reason="prefill_invalid") == 1


async def test_prefiller_that_fails_for_good_leaves_the_decoder_alone() -> None:
    async with rig() as r:
        r.prefillers[0].faults.status_times = -1
        reply = await r.complete("p")
        assert right(reply, "p")
        assert "x-pd-prefiller" not in reply.headers


async def test_400_of_the_engine_is_passed_on() -> None:
    async with rig(max_model_len=3) as r:
        reply = await r.complete("one two three")
        assert reply.status == 400
        assert "contains 3 input tokens" in reply.error["message"]
        assert await r.metric("pd_proxy_requests_total", outcome="client_error") == 1
        assert r.proxy.metrics.retries.values == {}


async def test_400_of_the_prefiller_alone_is_not_believed() -> None:
    async with rig() as r:
        r.prefillers[0].faults.status = 400
        r.prefillers[0].faults.status_times = -1
        assert right(await r.complete("p"), "p")
        assert await r.metric("pd_proxy_fallbacks_total", reason="prefill_rejected") == 1


async def test_client_that_leaves_ends_both_tiers() -> None:
    async with rig() as r:
        r.prefillers[0].faults.hang = True
        client = await Client.open(r.port)
        client.post("/v1/completions", completion("p", stream=True))
        await until(lambda: r.prefillers[0].seen and r.decoders[0].seen)
        client.abort()
        await until(lambda: r.prefillers[0].aborted and r.decoders[0].aborted)
        await until(lambda: r.proxy.metrics.requests.values["cancelled"] == 1)
        await until(lambda: quiet(r))


async def test_client_that_leaves_a_stream() -> None:
    async with rig(per_token=0.01) as r:
        client, _ = await ask_stream(r, "p", max_tokens=10000)
        client.abort()
        await until(lambda: r.decoders[0].aborted == 1)
        await until(lambda: quiet(r))


async def test_slow_client_holds_the_engine_back() -> None:
    # Long events: more than all buffers on the way take.
    name = "x" * 4000
    async with rig(served=(name,)) as r:
        client = await Client.open(r.port, limit=1024)
        client.post("/v1/completions", completion("p", stream=True, max_tokens=6000, model=name))
        await client.head()
        decoder = r.decoders[0]

        def writable() -> bool:
            return all(c.writable.is_set() for c in decoder.http.connections)

        await until(lambda: not writable())
        assert decoder.running == 1
        rest = await rest_of(client)
        assert rest.count(b"\n\n") == 6001
        assert rest.endswith(b"data: [DONE]\n\n")
        await until(lambda: quiet(r))


async def test_unknown_bootstrap_leaves_the_decoder_alone() -> None:
    async with rig(seconds={"bootstrap": 0.2}) as r:
        r.prefillers[0].faults.bootstrap_down = True
        backend = next(b for b in r.proxy.backends.all() if b.pod.tier == "prefiller")
        backend.doubt_engines()
        reply = await r.complete("p")
        assert right(reply, "p")
        assert "x-pd-prefiller" not in reply.headers
        assert await r.metric("pd_proxy_fallbacks_total", reason="no_prefiller") == 1
        r.prefillers[0].faults.bootstrap_down = False
        await r.learned()
        assert (await r.complete("q")).headers["x-pd-prefiller"] == "prefiller-0"


async def test_no_decoder_is_503_in_openais_shape() -> None:
    async with rig() as r:
        r.remove(r.decoders[0])
        reply = await r.complete("p")
        assert reply.status == 503
        assert reply.error["type"] == "ServiceUnavailableError"
        assert int(reply.headers["retry-after"]) > 0
        assert await r.metric("pd_proxy_requests_total", outcome="no_backend") == 1


async def test_too_many_in_flight_is_503() -> None:
    async with rig(limits={"inFlight": 2}) as r:
        r.decoders[0].faults.hang = True
        asking = [asyncio.create_task(r.complete(f"p{i}")) for i in range(2)]
        await until(lambda: len(r.decoders[0].seen) == 2)
        reply = await r.complete("p")
        assert reply.status == 503
        assert reply.headers["retry-after"] == "1"
        assert await r.metric("pd_proxy_requests_total", outcome="overloaded") == 1
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)


async def test_two_hundred_streams_at_once() -> None:
    async with rig(prefillers=2, decoders=2, per_token=0.001) as r:
        prompts = [f"p{i}" for i in range(200)]
        replies = await asyncio.gather(
            *(r.complete(p, stream=True, max_tokens=20) for p in prompts)
        )
        assert all(right(x, p, 20) for x, p in zip(replies, prompts, strict=True))
        await until(lambda: quiet(r))
