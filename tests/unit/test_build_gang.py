"""Gangs: what Kueue and Volcano find on pods and StatefulSets."""

from typing import Any

import pytest

from pd_operator.build import desired
from pd_operator.plan import with_replicas
from pd_shared.labels import DECODER, GANG_SIZE
from tests.specs import CUDA, DEFAULTS, at, deployment, merged, part

QUEUE = "kueue.x-k8s.io/queue-name"
TWO = at("decode.parallelism", {"data": 2, "nodes": 2})


def spec(**gang: str) -> dict[str, Any]:
    return merged(CUDA, merged(TWO, at("placement.gang", gang)))


def stateful_set(of: dict[str, Any], replicas: int) -> dict[str, Any]:
    tier = desired(deployment(of), DEFAULTS).tier(DECODER)
    assert tier is not None
    return with_replicas(tier, replicas)


def test_kueue_reads_the_label_of_the_stateful_set() -> None:
    found = stateful_set(spec(scheduler="Kueue", queue="gpus"), 1)
    assert found["metadata"]["labels"][QUEUE] == "gpus"
    assert found["spec"]["template"]["metadata"]["labels"][QUEUE] == "gpus"
    assert "schedulerName" not in found["spec"]["template"]["spec"]
    assert GANG_SIZE not in found["metadata"]["annotations"]


@pytest.mark.parametrize("replicas", [1, 3])
def test_volcano_is_told_the_number_of_pods(replicas: int) -> None:
    found = stateful_set(spec(scheduler="Volcano"), replicas)
    assert found["metadata"]["annotations"][GANG_SIZE] == str(2 * replicas)
    template = found["spec"]["template"]
    assert template["spec"]["schedulerName"] == "volcano"
    assert GANG_SIZE not in template["metadata"]["annotations"]


def test_volcanos_queue() -> None:
    key = "scheduling.volcano.sh/queue-name"
    assert part(spec(scheduler="Volcano", queue="gpus"), DECODER).annotations[key] == "gpus"
    assert key not in part(spec(scheduler="Volcano"), DECODER).annotations


def test_scaling_does_not_touch_the_template() -> None:
    of = spec(scheduler="Volcano")
    assert stateful_set(of, 1)["spec"]["template"] == stateful_set(of, 2)["spec"]["template"]


@pytest.mark.parametrize(
    ("gang", "name"),
    [({}, "scheduler-plugins-scheduler"), ({"schedulerName": "own"}, "own")],
)
def test_coscheduling_finds_the_pod_group_of_the_tier(gang: dict[str, str], name: str) -> None:
    found = stateful_set(spec(scheduler="Coscheduling", **gang), 2)
    template = found["spec"]["template"]
    assert template["spec"]["schedulerName"] == name
    assert template["metadata"]["labels"]["scheduling.x-k8s.io/pod-group"] == "tiny-decoder"
    assert GANG_SIZE not in found["metadata"]["annotations"]
