"""KV transfers of MooncakeConnector, and the metrics that tell of them."""

import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from tests.conformance.pair import Answer, Pair, ask, completion, metrics, total
from tests.conformance.surface import COMPLETIONS

_SOURCE = "vllm:prompt_tokens_by_source_total"
_LIMIT = 10.0


def _until(true: Callable[[], object]) -> None:
    """Counters come a moment after the answer."""
    end = time.monotonic() + _LIMIT
    while not true():
        assert time.monotonic() < end, "the counters did not move"
        time.sleep(0.05)


def _prefill(pair: Pair, body: dict[str, Any], transfer: str | None) -> Answer:
    params: dict[str, Any] = {"do_remote_decode": True, "do_remote_prefill": False}
    if transfer:
        params["transfer_id"] = transfer
    more = {"stream": False, "max_tokens": 1, "min_tokens": 1, "kv_transfer_params": params}
    return ask(pair.prefiller, "POST", COMPLETIONS, {**body, **more})


def _decode(pair: Pair, body: dict[str, Any], **params: str) -> Answer:
    fixed: dict[str, Any] = {"do_remote_decode": False, "do_remote_prefill": True}
    fixed["remote_bootstrap_addr"] = pair.bootstrap_for_decoder
    return ask(pair.decoder, "POST", COMPLETIONS, {**body, "kv_transfer_params": fixed | params})


def _engine_id(pair: Pair) -> str:
    return str(ask(pair.bootstrap, "GET", "/query").json()["0"]["engine_id"])


def _moved(pair: Pair, work: Callable[[], Answer]) -> tuple[Answer, dict[str, float]]:
    """An answer of the decoder, and where its prompt's tokens came from."""
    before = metrics(pair.decoder)
    answer = work()
    assert answer.status == 200, answer.body
    wanted = answer.json()["usage"]["prompt_tokens"]

    def gained() -> dict[str, float]:
        now = metrics(pair.decoder)
        return {
            source: total(now, _SOURCE, source=source) - total(before, _SOURCE, source=source)
            for source in ("local_compute", "local_cache_hit", "external_kv_transfer")
        }

    _until(lambda: sum(gained().values()) == wanted)
    return answer, gained()


def check_bootstrap(pair: Pair) -> None:
    answer = ask(pair.bootstrap, "GET", "/query")
    assert answer.status == 200
    assert answer.headers["content-type"] == "application/json"
    assert list(answer.json()) == ["0"]
    entry = answer.json()["0"]
    assert sorted(entry) == ["engine_id", "worker_addr"]
    assert re.fullmatch(r"tcp://[\d.]+:\d+", entry["worker_addr"]["0"]["0"])
    assert ask(pair.bootstrap, "GET", "/nothing").status == 404


def _check_transfer(pair: Pair, concurrent: bool) -> None:
    body = completion(pair)
    transfer = f"xfer-{body['prompt'][:8]}"
    engine = _engine_id(pair)

    def both() -> Answer:
        with ThreadPoolExecutor(2) as pool:
            if concurrent:
                decoding = pool.submit(
                    _decode, pair, body, transfer_id=transfer, remote_engine_id=engine
                )
                time.sleep(0.2)
                prefill = _prefill(pair, body, transfer)
            else:
                prefill = _prefill(pair, body, transfer)
                decoding = pool.submit(
                    _decode, pair, body, transfer_id=transfer, remote_engine_id=engine
                )
            assert prefill.status == 200, prefill.body
            value = prefill.json()
            assert value["kv_transfer_params"] is None
            assert value["usage"]["completion_tokens"] == 1
            assert value["choices"][0]["finish_reason"] == "length"
            return decoding.result()

    answer, gained = _moved(pair, both)
    prompt = answer.json()["usage"]["prompt_tokens"]
    assert gained == {
        "external_kv_transfer": prompt, "local_compute": 0, "local_cache_hit": 0,
    }  # fmt: skip
    alone, _ = _moved(pair, lambda: ask(pair.decoder, "POST", COMPLETIONS, body))
    assert answer.json()["choices"] == alone.json()["choices"]
    assert list(answer.json()) == list(alone.json())


def check_kv_moves(pair: Pair) -> None:
    _check_transfer(pair, concurrent=False)


def check_kv_moves_to_a_decoder_that_was_asked_first(pair: Pair) -> None:
    _check_transfer(pair, concurrent=True)


def check_an_unknown_engine_id_is_computed_again(pair: Pair) -> None:
    body = completion(pair)
    answer, gained = _moved(
        pair, lambda: _decode(pair, body, transfer_id="xfer-x", remote_engine_id="nobody")
    )
    assert gained["external_kv_transfer"] == 0
    assert gained["local_compute"] == answer.json()["usage"]["prompt_tokens"]


def check_what_a_request_adds_to_the_metrics(pair: Pair) -> None:
    before = metrics(pair.decoder)
    answer = ask(pair.decoder, "POST", COMPLETIONS, completion(pair, max_tokens=5))
    prompt = answer.json()["usage"]["prompt_tokens"]
    wanted = {
        ("vllm:generation_tokens_total", ""): 5,
        ("vllm:prompt_tokens_total", ""): prompt,
        ("vllm:request_success_total", "length"): 1,
        ("vllm:request_success_total", "stop"): 0,
        ("vllm:time_to_first_token_seconds_count", ""): 1,
        ("vllm:inter_token_latency_seconds_count", ""): 4,
        ("vllm:request_time_per_output_token_seconds_count", ""): 1,
        ("vllm:e2e_request_latency_seconds_count", ""): 1,
        ("vllm:request_queue_time_seconds_count", ""): 1,
        ("vllm:request_prefill_time_seconds_count", ""): 1,
        ("vllm:request_decode_time_seconds_count", ""): 1,
        ("vllm:request_inference_time_seconds_count", ""): 1,
        ("vllm:request_prompt_tokens_sum", ""): prompt,
        ("vllm:request_generation_tokens_sum", ""): 5,
        ("vllm:request_params_max_tokens_sum", ""): 5,
    }

    def gained() -> dict[tuple[str, str], float]:
        now = metrics(pair.decoder)
        found = {}
        for name, reason in wanted:
            labels = {"finished_reason": reason} if reason else {}
            found[name, reason] = total(now, name, **labels) - total(before, name, **labels)
        return found

    _until(lambda: gained()["vllm:e2e_request_latency_seconds_count", ""] == 1)
    assert gained() == wanted


NAMES = {
    "vllm:num_requests_running": (),
    "vllm:num_requests_waiting": (),
    "vllm:kv_cache_usage_perc": (),
    "vllm:prompt_tokens_total": (),
    "vllm:prompt_tokens_cached_total": (),
    "vllm:generation_tokens_total": (),
    "vllm:num_preemptions_total": (),
    _SOURCE: ("source",),
    "vllm:request_success_total": ("finished_reason",),
    **{
        f"vllm:{name}_bucket": ("le",)
        for name in (
            "time_to_first_token_seconds",
            "inter_token_latency_seconds",
            "request_time_per_output_token_seconds",
            "e2e_request_latency_seconds",
            "request_queue_time_seconds",
            "request_prefill_time_seconds",
            "request_decode_time_seconds",
            "request_inference_time_seconds",
            "request_prompt_tokens",
            "request_generation_tokens",
            "request_params_max_tokens",
        )
    },
}
_BOUNDS = {
    "vllm:time_to_first_token_seconds_bucket": ("0.001", "2560.0"),
    "vllm:inter_token_latency_seconds_bucket": ("0.01", "80.0"),
    "vllm:e2e_request_latency_seconds_bucket": ("0.3", "7680.0"),
    "vllm:request_prompt_tokens_bucket": ("1.0", "2000.0"),
}


def check_names_and_labels_of_metrics(pair: Pair) -> None:
    for url in (pair.prefiller, pair.decoder):
        series = metrics(url)
        for name, more in NAMES.items():
            labels = {frozenset(dict(has)) for found, has in series if found == name}
            assert labels == {frozenset(("engine", "model_name", *more))}, name
        values = {dict(has)["source"] for found, has in series if found == _SOURCE}
        assert values == {"local_compute", "local_cache_hit", "external_kv_transfer"}
        reasons = {
            dict(has)["finished_reason"]
            for found, has in series
            if found == "vllm:request_success_total"
        }
        assert reasons == {"stop", "length", "abort", "error", "repetition"}
        for name, bounds in _BOUNDS.items():
            found_bounds = {dict(has)["le"] for found, has in series if found == name}
            assert found_bounds >= {*bounds, "+Inf"}, name
    text = ask(pair.decoder, "GET", "/metrics")
    assert text.headers["content-type"].startswith("text/plain; version=")
    assert f'model_name="{pair.model}"'.encode() in text.body
