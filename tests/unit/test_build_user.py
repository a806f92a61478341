"""What users add to engine pods: which tier gets it, and that the other one stays as it was."""

from typing import Any

import pytest

from pd_operator.build import desired
from pd_shared.labels import DECODER, PREFILLER
from tests.specs import (
    CUDA,
    DEFAULTS,
    STORE,
    at,
    deployment,
    engine_pod,
    merged,
    part,
    variables,
)


def engine(spec: dict[str, Any], component: str) -> dict[str, Any]:
    (container,) = engine_pod(spec, component)["containers"]
    assert isinstance(container, dict)
    return container


OWN_IMAGE = merged(CUDA, at("prefill.image", "registry.example/vllm:hopper"))


def test_a_tier_has_its_own_image() -> None:
    assert engine(OWN_IMAGE, PREFILLER)["image"] == "registry.example/vllm:hopper"
    assert engine(OWN_IMAGE, DECODER)["image"] == "registry.example/vllm:1"


def test_init_containers_run_the_tiers_own_image() -> None:
    found = engine_pod(merged(OWN_IMAGE, STORE), PREFILLER)["initContainers"]
    assert [each["image"] for each in found] == ["registry.example/vllm:hopper"] * 2


def test_both_images_are_part_of_the_pairing() -> None:
    before = desired(deployment(CUDA), DEFAULTS)
    after = desired(deployment(OWN_IMAGE), DEFAULTS)
    assert after.prefiller is not None
    assert after.prefiller.pairing == after.decoder.pairing != before.pairing
    # Else a new release would keep decoders that pair with no prefiller.
    assert after.decoder.inputs != before.decoder.inputs


def test_the_same_image_for_each_tier_is_as_good_as_one_for_both() -> None:
    both = {tier: {"image": "registry.example/vllm:1"} for tier in ("prefill", "decode")}
    plain = desired(deployment(CUDA), DEFAULTS)
    assert desired(deployment(merged(CUDA, both)), DEFAULTS).pairing == plain.pairing


def test_a_tiers_arguments_come_after_those_of_both() -> None:
    spec = merged(
        CUDA, {"engine": {"args": ["--seed=1"]}, "decode": {"args": ["--max-num-seqs=512"]}}
    )
    assert part(spec, DECODER).args[-2:] == ("--seed=1", "--max-num-seqs=512")
    assert part(spec, PREFILLER).args[-1] == "--seed=1"


def test_a_tiers_variable_goes_before_one_of_both() -> None:
    spec = merged(
        CUDA,
        {
            "engine": {"env": [{"name": "A", "value": "both"}, {"name": "B", "value": "b"}]},
            "decode": {"env": [{"name": "A", "value": "own"}, {"name": "C"}]},
        },
    )
    given = [each for each in engine(spec, DECODER)["env"] if each["name"] in ("A", "B", "C")]
    assert given == [
        {"name": "A", "value": "own"}, {"name": "B", "value": "b"}, {"name": "C", "value": ""},
    ]  # fmt: skip
    assert variables(spec, PREFILLER)["A"] == "both"
    assert "C" not in variables(spec, PREFILLER)


@pytest.mark.parametrize("kind", ["secretKeyRef", "configMapKeyRef"])
def test_variable_from_elsewhere(kind: str) -> None:
    source = {kind: {"name": "n", "key": "k", "optional": True}}
    spec = merged(CUDA, at("prefill.env", [{"name": "A", "valueFrom": source}]))
    assert variables(spec, PREFILLER)["A"] == source


def test_volumes_and_mounts_of_a_tier() -> None:
    volumes = [
        {"name": "a", "configMap": {"name": "c"}},
        {"name": "b", "emptyDir": {"medium": "Memory", "sizeLimit": "1024Mi"}},
        {"name": "c", "persistentVolumeClaim": {"claimName": "p"}},
        {"name": "d", "emptyDir": {}},
    ]
    mounts = [{"name": "a", "mountPath": "/mnt/a", "subPath": "x", "readOnly": True}]
    spec = merged(CUDA, {"decode": {"volumes": volumes, "volumeMounts": mounts}})
    given = engine_pod(spec, DECODER)
    volumes[1]["emptyDir"] = {"medium": "Memory", "sizeLimit": "1Gi"}
    assert given["volumes"][-4:] == volumes
    assert given["containers"][0]["volumeMounts"][-1:] == mounts
    assert engine_pod(spec, PREFILLER) == engine_pod(CUDA, PREFILLER)


ONE_TIER: dict[str, Any] = {
    "replicas": 7,
    "resources": {"limits": {"memory": "99Gi"}},
    "nodeSelector": {"pool": "a"},
    "tolerations": [{"operator": "Exists"}],
    "args": ["--max-num-seqs=8"],
    "env": [{"name": "A", "value": "1"}],
    "volumes": [{"name": "a", "emptyDir": {}}],
}
"""Fields of a tier that no pod of the other tier may notice."""


@pytest.mark.parametrize("field", ONE_TIER)
@pytest.mark.parametrize(("changed", "other"), [("prefill", "decoder"), ("decode", "prefiller")])
def test_a_change_of_one_tier_leaves_the_other_alone(field: str, changed: str, other: str) -> None:
    before = desired(deployment(CUDA), DEFAULTS)
    after = desired(deployment(merged(CUDA, {changed: {field: ONE_TIER[field]}})), DEFAULTS)
    assert getattr(after, other) == getattr(before, other)
    assert after.pairing == before.pairing
    if field != "replicas":
        assert (after.prefiller, after.decoder) != (before.prefiller, before.decoder)
