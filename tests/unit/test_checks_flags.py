"""What the engines are told, wherever a spec says it."""

from typing import Any

import pytest

from pd_operator.checks.flags import Given, given, json_value
from tests.specs import CUDA, at, deployment, merged, part

KIND = "--kv-cache-dtype"


def found(changes: dict[str, Any], *flags: str) -> list[Given]:
    return list(given(deployment(merged(CUDA, changes)).spec, *flags))


@pytest.mark.parametrize(
    ("arguments", "name", "value"),
    [
        ([f"{KIND}=fp8"], KIND, "fp8"),
        ([KIND, "fp8"], KIND, "fp8"),
        (["--kv_cache_dtype=a=b"], KIND, "a=b"),
        (["--kv-cache-d", "fp8"], "--kv-cache-d", "fp8"),
        ([KIND, "--seed=1"], KIND, ""),
        ([KIND], KIND, ""),
    ],
)
def test_spellings(arguments: list[str], name: str, value: str) -> None:
    (one,) = found(at("engine.args", arguments), KIND)
    assert one == Given("spec.engine.args[0]", name, "", value)


def test_typed_fields_and_arguments_of_both_lists() -> None:
    changes = merged(
        at("engine.kvCacheDtype", "fp8"), at("decode.args", ["--x", "--max-num-seqs=2"])
    )
    changes = merged(changes, at("prefill.maxNumSeqs", 1))
    assert [(one.field, one.value) for one in found(changes, KIND, "--max-num-seqs")] == [
        ("spec.engine.kvCacheDtype", "fp8"),
        ("spec.prefill.maxNumSeqs", "1"),
        ("spec.decode.args[1]", "2"),
    ]
    assert found(changes, "--block-size") == []


@pytest.mark.parametrize("tier", ["prefill", "decode"])
def test_only_the_tiers_that_are_asked_for(tier: str) -> None:
    spec = deployment(merged(CUDA, at("decode.args", ["--seed=1"]))).spec
    assert bool(given(spec, "--seed", tiers=[tier])) == (tier == "decode")


def test_json_is_put_together_from_all_places() -> None:
    changes = at(
        "engine.args", ["--speculative-config.method=mtp", "-sc", '{"model": "m"}', "-sc=["]
    )
    spec = deployment(merged(CUDA, changes)).spec
    assert json_value(spec, "--speculative-config", "-sc") == {"method": "mtp", "model": "m"}
    typed = at("engine.speculative", {"method": "MTP", "numSpeculativeTokens": 2})
    assert json_value(deployment(merged(CUDA, typed)).spec, "--speculative-config") == {
        "method": "mtp", "num_speculative_tokens": 2,
    }  # fmt: skip


def test_typed_fields_say_what_the_engine_is_told() -> None:
    changes = merged(at("engine", {"dtype": "float16", "trustRemoteCode": False}),
                     at("decode.gpuMemoryUtilization", 0.5))  # fmt: skip
    told = part(merged(CUDA, changes), "decoder").args
    for one in found(changes, "--dtype", "--no-trust-remote-code", "--gpu-memory-utilization"):
        assert f"{one.name}={one.value}".removesuffix("=") in told
