"""Mode Colocated: the decode tier alone, without anything of the KV transfer."""

from typing import Any

import pytest

from pd_operator.build import desired
from pd_operator.validate import problems
from pd_shared import labels
from tests.specs import CPU, CUDA, DEFAULTS, STORE, children, deployment, engine_pod, merged, part

COLOCATED = {"mode": "Colocated"}
RDMA = {"rdma": {"resource": "rdma/hca", "count": 2, "devices": ["mlx5_0"]}}


@pytest.mark.parametrize("base", [CPU, CUDA, merged(CUDA, STORE), merged(CUDA, RDMA)])
def test_there_is_no_prefiller_and_no_store(base: dict[str, Any]) -> None:
    found = children(deployment(merged(base, COLOCATED)))
    names = {name for _, name in found}
    assert not any("prefiller" in name or "mooncake" in name for name in names)
    assert {"tiny-decoder", "tiny-proxy"} <= names
    assert sum(kind == "StatefulSet" for kind, _ in found) == 1


def test_desired_says_so() -> None:
    built = desired(deployment(merged(CUDA, COLOCATED)), DEFAULTS)
    assert [tier.component for tier in built.tiers] == [labels.DECODER]
    assert built.tier(labels.PREFILLER) is None
    assert built.pairing == built.decoder.pairing
    with pytest.raises(LookupError, match="prefiller"):
        _ = built.prefiller


@pytest.mark.parametrize("base", [CPU, CUDA, merged(CUDA, STORE), merged(CUDA, RDMA)])
def test_engines_know_nothing_of_a_transfer(base: dict[str, Any]) -> None:
    built = desired(deployment(merged(base, COLOCATED)), DEFAULTS)
    template = built.decoder.stateful_set["spec"]["template"]
    assert template["metadata"]["annotations"][labels.CONNECTOR] == labels.COLOCATED
    (container,) = template["spec"]["containers"]
    assert not any("kv-transfer" in arg for arg in container["args"])
    names = {variable["name"] for variable in container["env"]}
    assert not any(name.startswith("MC_") or "MOONCAKE" in name for name in names)
    assert not any("rdma" in name for name in container["resources"].get("limits", {}))
    assert "initContainers" not in template["spec"]


def test_what_is_not_used_changes_nothing() -> None:
    plain = desired(deployment(merged(CUDA, COLOCATED)), DEFAULTS)
    unused = merged(RDMA, {"prefill": {"replicas": 7, "parallelism": {"tensor": 2}}, **STORE})
    assert desired(deployment(merged(CUDA, merged(COLOCATED, unused))), DEFAULTS) == plain


def test_the_pairing_is_another_one_than_that_of_a_pair() -> None:
    alone = desired(deployment(merged(CUDA, COLOCATED)), DEFAULTS)
    assert alone.pairing != desired(deployment(CUDA), DEFAULTS).pairing


def test_disaggregated_is_the_default() -> None:
    explicit = merged(CUDA, {"mode": "Disaggregated"})
    said, unsaid = (desired(deployment(spec), DEFAULTS) for spec in (explicit, CUDA))
    assert said.objects == unsaid.objects
    assert [tier.name for tier in said.tiers] == [tier.name for tier in unsaid.tiers]


def test_the_decode_tier_keeps_its_own_fields() -> None:
    spec = merged(CUDA, {**COLOCATED, "decode": {"parallelism": {"tensor": 4}}})
    container = engine_pod(spec, labels.DECODER)["containers"][0]
    assert "--tensor-parallel-size=4" in container["args"]
    assert part(spec, labels.DECODER).devices == {"nvidia.com/gpu": 4}


def test_unused_fields_are_checked_so_that_the_switch_cannot_fail() -> None:
    spec = merged(CUDA, COLOCATED)
    good = merged(spec, {"prefill": {"replicas": 3, "nodeSelector": {"a": "b"}}})
    assert problems(deployment(good)) == ()
    bad = merged(spec, {"prefill": {"resources": {"limits": {"x": 1}}}})
    (problem,) = problems(deployment(bad))
    assert problem.field == "spec.prefill.resources.limits[x]"
