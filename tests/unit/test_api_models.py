"""What the models refuse, and how they say it."""

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from pd_operator.api.deployment import InvalidSpecError
from tests.specs import CUDA, at, deployment, merged
from tests.strategies import any_spec


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        (at("modle", {}), "spec.modle"),
        (at("engine.img", "a"), "spec.engine.img"),
        (at("engine.image", None), "spec.engine.image"),
        (at("engine.image", ""), "spec.engine.image"),
        (at("engine.version", "0.33"), "spec.engine.version"),
        (at("engine.device", "tpu"), "spec.engine.device"),
        (at("model.id", "--model"), "spec.model.id"),
        (at("model.id", "a/b/c"), "spec.model.id"),
        (at("model.source.pvc", {"claimName": "c", "path": "../a"}), "spec.model.source.pvc.path"),
        (at("model.source.local", {"path": "a"}), "spec.model.source.local.path"),
        (at("kvTransfer.protocol", "udp"), "spec.kvTransfer.protocol"),
        (at("kvTransfer.connector", "P2P"), "spec.kvTransfer.connector"),
        (at("rdma.count", 0), "spec.rdma.count"),
        (at("rdma.devices", ["mlx5_0,mlx5_1"]), "spec.rdma.devices.0"),
        (at("prefill.replicas", 0), "spec.prefill.replicas"),
        (at("prefill.parallelism.tensor", 65), "spec.prefill.parallelism.tensor"),
        (at("prefill.resources.limits", {"cpu": "-1"}), "spec.prefill.resources.limits.cpu"),
        (at("prefill.resources.limits", {"cpu": True}), "spec.prefill.resources.limits.cpu"),
        (at("decode.nodeSelector", {"a": "b c"}), "spec.decode.nodeSelector.a"),
        (at("decode.tolerations", [{"effect": "Never"}]), "spec.decode.tolerations.0.effect"),
        (at("autoscaling.mode", "On"), "spec.autoscaling.mode"),
        (at("autoscaling.slo.ttft", "0s"), "spec.autoscaling.slo.ttft"),
        (at("autoscaling.slo.tpot", "0.05"), "spec.autoscaling.slo.tpot"),
    ],
)
def test_refused_with_the_field(changes: dict[str, Any], field: str) -> None:
    with pytest.raises(InvalidSpecError) as refusal:
        deployment(merged(CUDA, changes))
    assert f"{field}: " in str(refusal.value) or f"{field}." in str(refusal.value)


def test_all_refusals_are_told_at_once() -> None:
    with pytest.raises(InvalidSpecError, match=r"spec\.rdma\.count: .*; spec\.proxy\.replicas: "):
        deployment(merged(CUDA, {"rdma": {"count": 0}, "proxy": {"replicas": 0}}))


def test_defaults() -> None:
    spec = deployment({"model": {"id": "m"}, "engine": {"image": "i"}}).spec
    assert spec.kv_transfer.protocol == "rdma"
    assert spec.engine.device == "cuda"
    assert spec.model.source.hugging_face is not None
    assert spec.prefill.parallelism.tensor == spec.decode.parallelism.tensor == 1
    assert not spec.mooncake.store.enabled
    assert spec.autoscaling.mode == "Off"


def test_numbers_are_quantities_too() -> None:
    spec = deployment(merged(CUDA, at("prefill.resources.limits", {"cpu": 2}))).spec
    assert spec.prefill.resources.limits == {"cpu": "2"}


@settings(
    max_examples=60, deadline=None, derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)  # fmt: skip
@given(spec=any_spec())
def test_models_take_what_the_schema_takes(spec: dict[str, Any]) -> None:
    """Else the operator would call a spec invalid that the API server has stored."""
    assert deployment(spec).spec.model.id == spec["model"]["id"]
