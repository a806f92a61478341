"""What changes a tier's revision and pairing, and what must not."""

from typing import Any

import pytest

from pd_operator.build import Desired, desired
from tests.specs import CUDA, DEFAULTS, STORE, at, deployment, merged

BASE = merged(
    CUDA,
    {
        "prefill": {"parallelism": {"tensor": 2}},
        "decode": {"parallelism": {"tensor": 2}},
        "autoscaling": {"slo": {"ttft": "1s"}},
    },
)


def built(*changes: dict[str, Any], name: str = "tiny", uid: str = "uid-1") -> Desired:
    spec = BASE
    for change in changes:
        spec = merged(spec, change)
    return desired(deployment(spec, name=name, uid=uid), DEFAULTS)


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("prefill.replicas", 5),
        ("decode.replicas", 5),
        ("proxy.replicas", 5),
        ("proxy.image", "registry.example/other:2"),
        ("mooncake.image", "registry.example/other:2"),
        ("mooncake.store.segmentSize", "9Gi"),  # the store is off
        ("autoscaling.mode", "Auto"),
        ("network.isolation", "Disabled"),
        ("network.monitoringNamespaces", ["monitoring"]),
        ("autoscaling.slo.tpot", "20ms"),
        ("autoscaling.prefill.max", 7),
        ("autoscaling.decode.max", 7),
        ("autoscaling.scaleDown.stabilizationWindow", "1h"),
    ],
)
def test_policy_never_touches_engines(path: str, value: Any) -> None:
    before, after = built(), built(at(path, value))
    for old, new in zip(before.tiers, after.tiers, strict=True):
        assert (old.name, old.pairing) == (new.name, new.pairing)
        assert old.stateful_set["spec"] == new.stateful_set["spec"]


def test_another_operator_release_never_touches_engines() -> None:
    spec = deployment(merged(BASE, STORE))
    other = desired(spec, type(DEFAULTS)("registry.example/new-proxy", "registry.example/new-mc"))
    assert desired(spec, DEFAULTS).prefiller == other.prefiller
    assert desired(spec, DEFAULTS).decoder == other.decoder


TIER_CHANGES: list[tuple[str, Any]] = [
    ("parallelism.tensor", 4),
    ("resources.limits", {"memory": "64Gi"}),
    ("nodeSelector", {"pool": "a"}),
    ("tolerations", [{"operator": "Exists"}]),
]


@pytest.mark.parametrize(("path", "value"), TIER_CHANGES)
def test_a_tier_changes_alone(path: str, value: Any) -> None:
    before = built()
    prefill, decode = built(at(f"prefill.{path}", value)), built(at(f"decode.{path}", value))
    assert prefill.prefiller.revision != before.prefiller.revision
    assert prefill.decoder == before.decoder
    assert decode.decoder.revision != before.decoder.revision
    assert decode.prefiller == before.prefiller
    assert before.pairing == prefill.pairing == decode.pairing


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("engine.image", "registry.example/vllm:2"),
        ("engine.version", "0.34.0"),
        ("engine.args", ["--block-size=32"]),
        ("engine.device", "cpu"),
        ("model.id", "org/other"),
        ("model.servedName", "other"),
        ("model.source", {"huggingFace": {"revision": "v2"}}),
        ("model.source", {"local": {"path": "/models/tiny"}}),
        ("model.source", {"pvc": {"claimName": "a"}}),
        ("kvTransfer.protocol", "tcp"),
        ("mooncake.store.enabled", True),
    ],
)
def test_what_both_must_agree_on_changes_the_pairing(path: str, value: Any) -> None:
    before, after = built(), built(at(path, value))
    assert before.pairing != after.pairing
    assert before.prefiller.revision != after.prefiller.revision
    assert before.decoder.revision != after.decoder.revision


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("rdma", {"count": 2}),
        ("rdma", {"resource": "rdma/other"}),
        ("rdma", {"devices": ["mlx5_0"]}),
        ("model.source", {"huggingFace": {"tokenSecret": {"name": "hf"}}}),
    ],
)
def test_what_concerns_pods_alone_keeps_the_pairing(path: str, value: Any) -> None:
    """Old and new pods may be paired while the tiers roll."""
    before, after = built(), built(at(path, value))
    assert before.pairing == after.pairing
    assert before.prefiller.revision != after.prefiller.revision
    assert before.decoder.revision != after.decoder.revision


def test_two_claims_are_two_pairings() -> None:
    pairings = {
        built(at("model.source", {"pvc": {"claimName": claim, "path": path}})).pairing
        for claim in ("a", "b")
        for path in ("x", "y")
    }
    assert len(pairings) == 4


def test_other_store_sizes_restart_the_engines() -> None:
    """They read the file at start: without new pods the change would wait for a crash."""
    before, after = built(STORE), built(STORE, at("mooncake.store.segmentSize", "9Gi"))
    assert before.prefiller.revision != after.prefiller.revision
    assert before.decoder.revision != after.decoder.revision
    assert before.pairing == after.pairing


def test_a_namesake_has_other_revisions() -> None:
    first, second = built(uid="uid-1"), built(uid="uid-2")
    assert first.prefiller.name != second.prefiller.name
    assert first.pairing == second.pairing


def test_stateful_set() -> None:
    tier = built().prefiller
    manifest, spec = tier.stateful_set, tier.stateful_set["spec"]
    assert manifest["metadata"]["name"] == tier.name == f"tiny-prefiller-{tier.revision}"
    assert "replicas" not in spec
    assert spec["updateStrategy"] == {"type": "OnDelete"}
    assert spec["podManagementPolicy"] == "Parallel"
    assert spec["serviceName"] == "tiny-prefiller"
    labels = spec["template"]["metadata"]["labels"]
    assert labels == manifest["metadata"]["labels"]
    assert labels["pd-operator.io/revision"] == tier.revision
    assert labels["pd-operator.io/pairing"] == tier.pairing
    assert spec["selector"]["matchLabels"]["pd-operator.io/revision"] == tier.revision
    annotations = spec["template"]["metadata"]["annotations"]
    assert annotations["pd-operator.io/deployment-uid"] == "uid-1"


@pytest.mark.parametrize("text", ["revision", "pairing"])
def test_hashes_are_eight_letters(text: str) -> None:
    value = getattr(built().decoder, text)
    assert len(value) == 8
    assert set(value) <= set("bcdfghjklmnpqrstvwxz")
