"""The flow of a request through a pair of simulated engines."""

import asyncio
import json
from typing import Any

import pytest

from tests.engine_sim import answers
from tests.engine_sim.client import Client, ask
from tests.engine_sim.rig import completion, rig, until

CHAT = "/v1/chat/completions"
COMPLETIONS = "/v1/completions"


def expected(prompt: str, count: int) -> str:
    return "".join(answers.tokens(prompt, count))


async def test_completion_is_answered_from_transferred_kv() -> None:
    async with rig() as r:
        reply = await r.complete("one two three", max_tokens=5)
        assert reply.status == 200
        assert reply.text() == expected("one two three", 5)
        assert reply.headers["x-pd-prefiller"] == "prefiller-0"
        assert reply.headers["x-pd-decoder"] == "decoder-0"
        assert r.decoders[0].sources == {
            "external_kv_transfer": 3, "local_compute": 0, "local_cache_hit": 0,
        }  # fmt: skip
        assert r.prefillers[0].store.held == {}


async def test_bodies_are_as_the_protocol_wants_them() -> None:
    async with rig() as r:
        body = completion(
            "a b",
            stream=True,
            stream_options={"include_usage": True},
            max_completion_tokens=7,
            seed=123456789012345678901234567890,
            kv_transfer_params={"do_remote_decode": True},
            vllm_xargs={"kv_transfer_params": "x", "other": 1},
        )
        reply = await ask(
            r.port,
            COMPLETIONS,
            body,
            x_request_id="mine",
            traceparent="00-1-2-03",
            x_data_parallel_rank="7",
            x_pd_decoder="evil",
            authorization="Bearer k",
        )
        assert reply.status == 200
        (prefill,), (decode,) = r.prefillers[0].seen, r.decoders[0].seen
        transfer = prefill.body["kv_transfer_params"]["transfer_id"]
        assert prefill.body["kv_transfer_params"] == {
            "do_remote_decode": True, "do_remote_prefill": False, "transfer_id": transfer,
        }  # fmt: skip
        wanted: dict[str, Any] = {
            "stream": False, "max_tokens": 1, "max_completion_tokens": 1, "min_tokens": 1, "n": 1,
        }  # fmt: skip
        assert {key: prefill.body.get(key) for key in wanted} == wanted
        assert "stream_options" not in prefill.body
        assert decode.body["kv_transfer_params"] == {
            "do_remote_decode": False,
            "do_remote_prefill": True,
            "remote_bootstrap_addr": f"http://127.0.0.1:{r.prefillers[0].bootstrap_port}",
            "remote_engine_id": r.prefillers[0].store.engine_id,
            "transfer_id": transfer,
        }
        assert decode.body["max_completion_tokens"] == 7
        assert decode.body["vllm_xargs"] == {"other": 1}
        for seen in (prefill, decode):
            assert seen.headers["x-request-id"] == "mine"
            assert seen.headers["traceparent"] == "00-1-2-03"
            assert seen.headers["authorization"] == "Bearer k"
            assert not {"x-data-parallel-rank", "x-pd-decoder"} & set(seen.headers)
        assert reply.headers["x-request-id"] == "mine"


async def test_the_decoder_gets_the_clients_own_bytes() -> None:
    async with rig() as r:
        client = await Client.open(r.port)
        raw = b'{"model":"tiny", "prompt":"\\u00e9", "seed":18446744073709551617,"max_tokens":2 }\n'
        client.send("POST", COMPLETIONS, raw)
        assert (await client.reply()).status == 200
        client.close()
        (seen,) = r.decoders[0].seen
        assert seen.body["seed"] == 18446744073709551617
        del seen.body["kv_transfer_params"]
        assert seen.body == json.loads(raw)


@pytest.mark.parametrize("chat", [False, True])
async def test_stream_is_byte_true(chat: bool) -> None:
    async with rig() as r:
        body = completion(
            "a b c", max_tokens=6, stream=True, stream_options={"include_usage": True}
        )
        if chat:
            body["messages"] = [{"role": "user", "content": body.pop("prompt")}]
        path = CHAT if chat else COMPLETIONS
        direct = await ask(r.decoders[0].port, path, body, x_request_id="same")
        reply = await ask(r.port, path, body, x_request_id="same")
        assert reply.body == direct.body
        assert reply.headers["content-type"] == direct.headers["content-type"]
        assert r.decoders[0].sources["external_kv_transfer"] > 0


async def test_transfer_ids_are_never_used_again() -> None:
    async with rig(prefillers=2, decoders=2) as r:
        prompts = [f"p{i}" for i in range(200)]
        replies = await asyncio.gather(*(r.complete(p, stream=True) for p in prompts))
        assert [x.text() for x in replies] == [expected(p, 4) for p in prompts]
        ids = [s.body["kv_transfer_params"]["transfer_id"] for d in r.decoders for s in d.seen]
        assert len(ids) == len(set(ids)) == 200
        used = {len(e.seen) for e in (*r.prefillers, *r.decoders)}
        assert min(used) > 50


async def test_only_one_pairing_is_paired() -> None:
    async with rig(prefillers=2, decoders=2) as r:
        for engines in (r.prefillers, r.decoders):
            for index, engine in enumerate(engines):
                r.update(engine, pairing=f"rev{index}")
        replies = await asyncio.gather(*(r.complete(f"p{i}") for i in range(40)))
        pairs = {(x.headers["x-pd-prefiller"], x.headers["x-pd-decoder"]) for x in replies}
        assert pairs == {("prefiller-0", "decoder-0"), ("prefiller-1", "decoder-1")}


async def test_a_decoder_of_another_pairing_answers_only_where_there_is_no_other() -> None:
    async with rig(decoders=2) as r:
        r.update(r.decoders[0], pairing="other")
        for i in range(5):
            assert (await r.complete(f"p{i}")).headers["x-pd-decoder"] == "decoder-1"
        r.remove(r.decoders[1])
        reply = await r.complete("alone")
        assert reply.status == 200
        assert "x-pd-prefiller" not in reply.headers
        assert await r.metric("pd_proxy_fallbacks_total", reason="no_prefiller") == 1


async def test_draining_backends_get_nothing_new() -> None:
    async with rig(prefillers=2, decoders=2) as r:
        r.update(r.prefillers[0], state="draining")
        r.update(r.decoders[1], state="draining")
        for i in range(10):
            reply = await r.complete(f"p{i}")
            assert reply.headers["x-pd-prefiller"] == "prefiller-1"
            assert reply.headers["x-pd-decoder"] == "decoder-0"
        assert await r.metric("pd_proxy_backends", tier="prefill", state="draining") == 1


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"n": 2}, "n"),
        ({"best_of": 3}, "best_of"),
        ({"use_beam_search": True}, "beam_search"),
        ({"prompt_logprobs": 1}, "prompt_logprobs"),
        ({"echo": True, "logprobs": 1}, "echo_logprobs"),
        ({"prompt": ["a", "b"]}, "prompt_list"),
        ({"prompt": [[1, 2], [3]]}, "prompt_list"),
        ({"prompt_embeds": "x"}, "prompt_embeds"),
    ],
)
async def test_what_a_pair_cannot_answer_goes_to_a_decoder_alone(
    more: dict[str, Any], reason: str
) -> None:
    async with rig() as r:
        reply = await ask(r.port, COMPLETIONS, completion("p") | more)
        assert reply.status == 200
        assert "x-pd-prefiller" not in reply.headers
        assert r.prefillers[0].seen == []
        assert "kv_transfer_params" not in r.decoders[0].seen[0].body
        assert await r.metric("pd_proxy_fallbacks_total", reason=reason) == 1


@pytest.mark.parametrize("path", ["/v1/responses", "/v1/messages", "/v1/chat/completions/batch"])
async def test_other_paths_that_generate_are_counted_as_fallbacks(path: str) -> None:
    async with rig() as r:
        assert (await ask(r.port, path, {"input": "x"})).status == 200
        assert await r.metric("pd_proxy_fallbacks_total", reason="endpoint") == 1
        assert (await ask(r.port, "/v1/embeddings", {"input": "x"})).status == 200
        assert await r.metric("pd_proxy_fallbacks_total", reason="endpoint") == 1


@pytest.mark.parametrize(
    "more",
    [
        {"tools": [{"type": "function", "function": {"name": "f"}}], "tool_choice": "required"},
        {"response_format": {"type": "json_object"}},
        {"logprobs": True, "top_logprobs": 2},
        {"structured_outputs": {"regex": "a+"}},
        {"echo": True},
        {"stop": ["x"], "min_tokens": 2},
        {"ignore_eos": True, "seed": 7, "logit_bias": {"5": 1}},
    ],
    ids=lambda more: next(iter(more)),
)
async def test_a_chat_goes_through_a_pair_and_keeps_its_fields(more: dict[str, Any]) -> None:
    """The prefill sees the same prompt: what the template gets is the same in both."""
    async with rig() as r:
        messages = [{"role": "user", "content": "hi"}]
        body = {"model": "tiny", "messages": messages, "max_tokens": 3, **more}
        reply = await ask(r.port, CHAT, body)
        assert reply.status == 200
        assert "x-pd-prefiller" in reply.headers
        (prefill,), (decode,) = r.prefillers[0].seen, r.decoders[0].seen
        for key, value in more.items():
            assert decode.body[key] == value
            assert prefill.body[key] == (1 if key == "min_tokens" else value)
        assert {k: v for k, v in decode.body.items() if k != "kv_transfer_params"} == body


@pytest.mark.parametrize(
    "more", [{"n": 1}, {"echo": True}, {"logprobs": 2}, {"prompt": [1, 2, 3]}, {"prompt": ["a"]}]
)
async def test_what_a_pair_can_answer(more: dict[str, Any]) -> None:
    async with rig() as r:
        reply = await ask(r.port, COMPLETIONS, completion("p") | more)
        assert reply.status == 200
        assert "x-pd-prefiller" in reply.headers


async def test_data_parallel_ranks_take_turns() -> None:
    async with rig(ranks=2) as r:
        for i in range(4):
            assert (await r.complete(f"p{i}")).status == 200
        store = r.prefillers[0].store
        told = [
            (p.headers["x-data-parallel-rank"], d.body["kv_transfer_params"]["remote_engine_id"])
            for p, d in zip(r.prefillers[0].seen, r.decoders[0].seen, strict=True)
        ]
        assert set(told) == {("0", f"{store.engine_id}_dp0"), ("1", f"{store.engine_id}_dp1")}


async def test_prefill_and_decode_run_at_once() -> None:
    async with rig() as r:
        r.prefillers[0].faults.hang = True
        asking = asyncio.create_task(r.complete("p"))
        await until(lambda: r.prefillers[0].seen and r.decoders[0].seen)
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        await until(lambda: r.prefillers[0].aborted and r.decoders[0].aborted)


async def test_metrics_tell_the_truth() -> None:
    async with rig() as r:
        await until(lambda: r.proxy.metrics.kv_moved.values)
        reply = await r.complete("one two three four", max_tokens=8, stream=True)
        assert reply.status == 200
        await until(lambda: r.proxy.metrics.kv_moved.values["decoder-0"] == 4)
        for name, value in {
            "pd_proxy_requests_offered_total": 1,
            "pd_proxy_prompt_tokens_offered_total": 4,
            "pd_proxy_completion_tokens_total": 8,
            "pd_proxy_ttft_seconds_count": 1,
            "pd_proxy_prefill_seconds_count": 1,
            "pd_proxy_tpot_seconds_count": 1,
            "pd_proxy_e2e_seconds_count": 1,
            "pd_proxy_internal_errors_total": 0,
        }.items():
            assert await r.metric(name) == value, name
        assert await r.metric("pd_proxy_requests_total", outcome="ok") == 1
        for name, value in {"expected": 4, "moved": 4, "cached": 0, "recomputed": 0}.items():
            assert await r.metric(f"pd_proxy_kv_{name}_tokens_total", decoder="decoder-0") == value
        for tier in ("prefill", "decode"):
            assert await r.metric("pd_proxy_in_flight", tier=tier) == 0
            assert await r.metric("pd_proxy_backends", tier=tier, state="ready") == 1


async def test_wrong_wiring_shows_in_the_kv_metrics() -> None:
    async with rig() as r:
        await until(lambda: r.proxy.metrics.kv_moved.values)
        r.prefillers[0].store.engine_id = "nobody"
        assert (await r.complete("one two three")).status == 200
        await until(lambda: r.proxy.metrics.kv_recomputed.values["decoder-0"] == 3)
        assert await r.metric("pd_proxy_kv_expected_tokens_total", decoder="decoder-0") == 3
        assert await r.metric("pd_proxy_kv_expected_requests_total", decoder="decoder-0") == 1
        assert await r.metric("pd_proxy_kv_moved_tokens_total", decoder="decoder-0") == 0


async def test_usage_counts_an_answer_in_one_piece() -> None:
    async with rig() as r:
        assert (await r.complete("one two", max_tokens=9)).status == 200
        assert await r.metric("pd_proxy_completion_tokens_total") == 9
        assert await r.metric("pd_proxy_ttft_seconds_count") == 0


async def test_in_flight_names_the_tier() -> None:
    async with rig() as r:
        r.prefillers[0].faults.hang = True
        asking = asyncio.create_task(r.complete("p"))
        await until(lambda: r.prefillers[0].seen)
        assert await r.metric("pd_proxy_in_flight", tier="prefill") == 1
        assert await r.metric("pd_proxy_in_flight", tier="decode") == 0
        asking.cancel()
        await asyncio.gather(asking, return_exceptions=True)
        await until(lambda: r.proxy.metrics.requests.values["cancelled"] == 1)
        assert await r.metric("pd_proxy_in_flight", tier="prefill") == 0
