"""Typed options of the engine and speculative decoding: what a spec may not say."""

from typing import Any

import pytest

from pd_operator.api.engine import AGREED_FLAGS
from pd_operator.api.options import ENGINE_FLAGS, TIER_FLAGS
from pd_operator.validate import problems
from tests.specs import CUDA, at, deployment, merged

SPECULATIVE = "spec.engine.speculative"


def found(changes: dict[str, Any]) -> list[tuple[str, str]]:
    result = problems(deployment(merged(CUDA, changes)))
    assert all(problem.field in problem.message for problem in result)
    return [(problem.field, problem.message) for problem in result]


def with_args(changes: dict[str, Any], *args: str) -> dict[str, Any]:
    return merged(changes, at("engine.args", list(args)))


@pytest.mark.parametrize(
    ("changes", "argument", "flag", "path"),
    [
        (at("engine.dtype", "float16"), "--dtype=half", "--dtype", "spec.engine.dtype"),
        (at("engine.maxModelLen", 1), "--max_model_len=9", "--max-model-len",
         "spec.engine.maxModelLen"),
        (at("engine.maxModelLen", 1), "--max-model=9", "--max-model-len",
         "spec.engine.maxModelLen"),
        (at("engine.quantization", "fp8"), "-qawq", "-q", "spec.engine.quantization"),
        (at("engine.trustRemoteCode", False), "--trust-remote-code", "--trust-remote-code",
         "spec.engine.trustRemoteCode"),
        (at("engine.speculative", {"method": "MTP", "numSpeculativeTokens": 1}),
         "--speculative-config.method=mtp", "--speculative-config", SPECULATIVE),
        (at("engine.speculative", {"method": "MTP", "numSpeculativeTokens": 1}),
         "--spec-tokens=1", "--spec-tokens", SPECULATIVE),
        (at("prefill.maxNumSeqs", 1), "--max-num-seqs=9", "--max-num-seqs",
         "spec.prefill.maxNumSeqs"),
        (at("decode.gpuMemoryUtilization", 0.5), "--device-memory-utilization=0.9",
         "--device-memory-utilization", "spec.decode.gpuMemoryUtilization"),
        (at("decode.prefixCaching", True), "--no-enable-prefix-caching",
         "--no-enable-prefix-caching", "spec.decode.prefixCaching"),
    ],
)  # fmt: skip
def test_field_and_argument_that_say_the_same(
    changes: dict[str, Any], argument: str, flag: str, path: str
) -> None:
    ((field, message),) = found(with_args(changes, "--seed=1", argument))
    assert field == "spec.engine.args[1]"
    assert f"must not set {flag}: {path} sets it" in message


TYPED = {
    "gpuMemoryUtilization": 0.5, "maxNumSeqs": 8, "maxNumBatchedTokens": 2048,
    "enforceEager": True, "prefixCaching": True,
}  # fmt: skip


@pytest.mark.parametrize("args_of", ["engine", "prefill", "decode"])
@pytest.mark.parametrize("tier", ["prefill", "decode"])
@pytest.mark.parametrize(
    ("field", "flag"), [(field, flag) for field, flags in TIER_FLAGS.items() for flag in flags]
)
@pytest.mark.parametrize("spelling", ["--a-b", "--a_b", "--a-b=1", "beginning"])
def test_field_of_a_tier_and_the_same_in_any_arguments(
    field: str, flag: str, tier: str, args_of: str, spelling: str
) -> None:
    argument = {
        "--a-b": flag,
        "--a_b": "--" + flag[2:].replace("-", "_"),
        "--a-b=1": f"{flag}=1",
        "beginning": flag[:-1],
    }[spelling]
    changes = merged(at(f"{tier}.{field}", TYPED[field]), at(f"{args_of}.args", [argument]))
    if args_of in ("engine", tier):
        ((where, message),) = found(changes)
        assert where == f"spec.{args_of}.args[0]"
        assert f"spec.{tier}.{field} sets it" in message
    else:
        assert found(changes) == []


@pytest.mark.parametrize("tier", ["prefill", "decode"])
@pytest.mark.parametrize("flag", sorted(f for flags in ENGINE_FLAGS.values() for f in flags))
def test_flag_of_a_field_of_the_engine_is_never_a_tiers(flag: str, tier: str) -> None:
    ((where, message),) = found(at(f"{tier}.args", [flag]))
    assert where == f"spec.{tier}.args[0]"
    assert f"must not set {flag}: both tiers must agree on it" in message
    assert flag in AGREED_FLAGS  # the API server says so too


def test_argument_of_an_option_that_is_not_given() -> None:
    changes = at("engine.quantization", "fp8")
    args = ("--dtype=half", "--max-num-seqs=9", "--quantization-config={}", "-O3")
    assert found(with_args(changes, *args)) == []


@pytest.mark.parametrize(
    ("given", "field", "allowed"),
    [
        ({"method": "Eagle"}, "model", "must be set where"),
        ({"method": "DraftModel"}, "model", "must be set where"),
        ({"method": "NGram", "model": "org/a"}, "model", "must not be set"),
        ({"method": "NGram", "draftTensorParallelSize": 1}, "draftTensorParallelSize",
         "must not be set"),
        ({"method": "MTP", "revision": "a"}, "revision", "only allowed where"),
        ({"method": "MTP", "quantization": "fp8"}, "quantization", "only allowed where"),
        ({"method": "MTP", "promptLookupMin": 1}, "promptLookupMin", "only allowed where"),
        ({"method": "NGram", "promptLookupMin": 4, "promptLookupMax": 3}, "promptLookupMin",
         "must be at most"),
        ({"method": "MTP", "draftTensorParallelSize": 4}, "draftTensorParallelSize",
         "must be 1, or equal parallelism.tensor of both tiers (1 and 1)"),
    ],
)  # fmt: skip
def test_speculative_field(given: dict[str, Any], field: str, allowed: str) -> None:
    ((path, message),) = found(at("engine.speculative", {"numSpeculativeTokens": 1, **given}))
    assert path == f"{SPECULATIVE}.{field}"
    assert allowed in message


def test_draft_may_have_the_ranks_of_both_tiers() -> None:
    draft = {"method": "MTP", "numSpeculativeTokens": 1, "draftTensorParallelSize": 4}

    def tiers(prefill: int, decode: int) -> dict[str, Any]:
        sizes = {"prefill": prefill, "decode": decode}
        return {name: {"parallelism": {"tensor": size}} for name, size in sizes.items()}

    assert found({"engine": {"speculative": draft}, **tiers(4, 4)}) == []
    (problem,) = found({"engine": {"speculative": draft}, **tiers(4, 2)})
    assert "(4 and 2)" in problem[1]


def test_draft_model_must_be_there_where_the_hub_is_not_reached() -> None:
    def draft(model: str) -> dict[str, Any]:
        fields = {"method": "Eagle3", "numSpeculativeTokens": 1, "model": model}
        return at("engine.speculative", fields)

    local = at("model.source", {"local": {"path": "/models/big"}})
    (problem,) = found(merged(draft("org/eagle"), local))
    assert "must be an absolute folder" in problem[1]
    assert found(merged(draft("/models/eagle"), local)) == []
    assert found(draft("org/eagle")) == []
