"""What the API server refuses of typed engine options and speculative decoding."""

from typing import Any

import pytest

from pd_operator.api.options import ENGINE_FLAGS, TIER_FLAGS
from tests.api.conftest import Submit
from tests.specs import at, merged

pytestmark = pytest.mark.cluster

BASE: dict[str, Any] = {
    "apiVersion": "pd-operator.io/v1alpha1",
    "kind": "PDDeployment",
    "metadata": {"name": "ok"},
    "spec": {"model": {"id": "org/model"}, "engine": {"image": "registry.example/vllm:1"}},
}
VALUES: dict[str, Any] = {
    "dtype": "float16", "maxModelLen": 4096, "blockSize": 16, "kvCacheDtype": "fp8",
    "quantization": "fp8", "trustRemoteCode": True,
    "speculative": {"method": "NGram", "numSpeculativeTokens": 2},
    "gpuMemoryUtilization": 0.5, "maxNumSeqs": 8, "maxNumBatchedTokens": 2048,
    "enforceEager": False, "prefixCaching": True,
}  # fmt: skip


def draft(**fields: Any) -> dict[str, Any]:
    return at("engine.speculative", {"numSpeculativeTokens": 2, **fields})


CASES: list[tuple[dict[str, Any], tuple[str, ...]]] = [
    (at("engine.dtype", "half"), ("spec.engine.dtype", '"bfloat16"')),
    (at("engine.maxModelLen", 0), ("spec.engine.maxModelLen", "greater than or equal to 1")),
    (at("engine.kvCacheDtype", "int4"), ("spec.engine.kvCacheDtype", '"fp8_e4m3"')),
    (at("engine.quantization", "FP8"), ("spec.engine.quantization", "should match")),
    (at("engine.trustRemoteCode", "yes"), ("spec.engine.trustRemoteCode", "boolean")),
    (at("prefill.gpuMemoryUtilization", 1.5),
     ("spec.prefill.gpuMemoryUtilization", "less than or equal to 1")),
    (at("decode.gpuMemoryUtilization", 0.001),
     ("spec.decode.gpuMemoryUtilization", "greater than or equal to 0.01")),
    (at("decode.maxNumSeqs", 0), ("spec.decode.maxNumSeqs", "greater than or equal to 1")),
    (draft(method="Medusa"), ("spec.engine.speculative.method", '"Eagle3"')),
    (at("engine.speculative", {"method": "MTP"}),
     ("spec.engine.speculative.numSpeculativeTokens", "Required")),
    (draft(method="Eagle", model="a b"), ("spec.engine.speculative.model", "should match")),
    (draft(method="Eagle3"), ("speculative.model must be set where method is Eagle, Eagle3",)),
    (draft(method="NGram", model="org/a"), ("are not allowed where method is NGram",)),
    (draft(method="MTP", revision="a"), ("only allowed where model is set",)),
    (draft(method="MTP", promptLookupMax=2), ("only allowed where method is NGram",)),
    (draft(method="NGram", promptLookupMax=2, promptLookupMin=3),
     ("promptLookupMin must be at most promptLookupMax",)),
    (draft(method="MTP", draftTensorParallelSize=2),
     ("draftTensorParallelSize must be 1, or equal parallelism.tensor of both tiers",)),
    (merged(draft(method="Eagle", model="org/a"), at("model.source.local.path", "/m")),
     ("engine.speculative.model must be an absolute folder",)),
    *(
        (merged(at(f"engine.{field}", VALUES[field]), at("engine.args", ["--seed=1", flag])),
         (f"args must not contain {flags[0]} where {field} is set",))
        for field, flags in ENGINE_FLAGS.items() for flag in flags
    ),
    *(
        (merged(at(f"{tier}.{field}", VALUES[field]), at("engine.args", [f"{flags[0]}=1"])),
         (f"args must not contain {flags[0]} where prefill.{field} or decode.{field} is set",))
        for field, flags in TIER_FLAGS.items() for tier in ("prefill", "decode")
    ),
    *(
        (at(tier, {field: VALUES[field], "args": [flag.replace("-", "_").replace("__", "--", 1)]}),
         (f"spec.{tier}: Invalid value",
          f"args of a tier must not contain {flags[0]} where {field} is set"))
        for field, flags in TIER_FLAGS.items() for flag in flags for tier in ("prefill", "decode")
    ),
    *(
        (at("decode.args", [flag]), ("on which both tiers must agree",))
        for flags in ENGINE_FLAGS.values() for flag in flags
    ),
]  # fmt: skip


def manifest(changes: dict[str, Any]) -> dict[str, Any]:
    return merged(BASE, {"spec": changes})


@pytest.mark.parametrize(("changes", "expected"), CASES, ids=lambda value: str(value)[:80])
def test_refused(submit: Submit, changes: dict[str, Any], expected: tuple[str, ...]) -> None:
    message = submit(manifest(changes))
    assert message, "accepted"
    assert [part for part in expected if part not in message] == [], message


@pytest.mark.parametrize(
    "changes",
    [
        {"engine": {key: VALUES[key] for key in ENGINE_FLAGS}},
        {"prefill": {key: VALUES[key] for key in TIER_FLAGS}, "decode": {"maxNumSeqs": 1}},
        at("prefill.gpuMemoryUtilization", 1),
        draft(method="Eagle3", model="org/eagle", revision="v1", quantization="fp8"),
        merged(
            draft(method="MTP", draftTensorParallelSize=4),
            {tier: {"parallelism": {"tensor": 4}} for tier in ("prefill", "decode")},
        ),
        merged(draft(method="Eagle", model="/m/e"), at("model.source.local.path", "/m/m")),
        merged(at("engine.dtype", "auto"), at("engine.args", ["--dtype-like", "-qx"])),
        {"prefill": {"maxNumSeqs": 1}, "decode": {"args": ["--max-num-seqs=2"]}},
    ],
    ids=str,
)
def test_accepted(submit: Submit, changes: dict[str, Any]) -> None:
    assert submit(manifest(changes)) == ""
