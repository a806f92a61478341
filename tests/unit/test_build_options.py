"""Typed options of the engine: flags of `vllm serve`, and what both tiers must agree on."""

from typing import Any

import pytest

from pd_operator.build.pairing import pairing
from pd_shared.labels import DECODER, PREFILLER
from tests.specs import CUDA, at, merged, part


def added(changes: dict[str, Any], component: str) -> list[str]:
    before = part(CUDA, component).args
    return [a for a in part(merged(CUDA, changes), component).args if a not in before]


@pytest.mark.parametrize(
    ("field", "value", "flag"),
    [
        ("dtype", "bfloat16", "--dtype=bfloat16"),
        ("maxModelLen", 32768, "--max-model-len=32768"),
        ("blockSize", 64, "--block-size=64"),
        ("kvCacheDtype", "fp8_e4m3", "--kv-cache-dtype=fp8_e4m3"),
        ("quantization", "compressed-tensors", "--quantization=compressed-tensors"),
        ("trustRemoteCode", True, "--trust-remote-code"),
        ("trustRemoteCode", False, "--no-trust-remote-code"),
    ],
)
def test_options_of_both_tiers(field: str, value: Any, flag: str) -> None:
    changes = at(f"engine.{field}", value)
    assert added(changes, PREFILLER) == added(changes, DECODER) == [flag]
    assert pairing(part(merged(CUDA, changes), DECODER)) != pairing(part(CUDA, DECODER))


@pytest.mark.parametrize(
    ("field", "value", "flag"),
    [
        ("gpuMemoryUtilization", 0.875, "--gpu-memory-utilization=0.875"),
        ("gpuMemoryUtilization", 1, "--gpu-memory-utilization=1"),
        ("maxNumSeqs", 256, "--max-num-seqs=256"),
        ("maxNumBatchedTokens", 16384, "--max-num-batched-tokens=16384"),
        ("enforceEager", True, "--enforce-eager"),
        ("enforceEager", False, "--no-enforce-eager"),
        ("prefixCaching", True, "--enable-prefix-caching"),
        ("prefixCaching", False, "--no-enable-prefix-caching"),
    ],
)
def test_options_of_one_tier_leave_the_other_and_the_pairing(
    field: str, value: Any, flag: str
) -> None:
    changes = at(f"decode.{field}", value)
    assert added(changes, PREFILLER) == []
    assert added(changes, DECODER) == [flag]
    assert pairing(part(merged(CUDA, changes), DECODER)) == pairing(part(CUDA, DECODER))


def test_options_come_before_the_arguments_of_the_user() -> None:
    spec = merged(CUDA, {"engine": {"dtype": "float16", "args": ["--seed=1"]}})
    args = part(spec, DECODER).args
    assert args.index("--dtype=float16") < args.index("--seed=1")
