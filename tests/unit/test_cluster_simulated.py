"""Node objects that kwok plays."""

import json

from tests.cluster.simulated import GPU_NODE, manifest


def test_a_node_has_its_capacity_and_is_marked_for_kwok() -> None:
    node = manifest("n-0", GPU_NODE, {"gpu": "h100"}, taints=())
    assert node["status"]["allocatable"] == node["status"]["capacity"] == GPU_NODE
    assert node["metadata"]["annotations"] == {"kwok.x-k8s.io/node": "fake"}
    assert node["metadata"]["labels"]["gpu"] == "h100"
    assert node["metadata"]["labels"]["kubernetes.io/hostname"] == "n-0"
    assert node["spec"]["taints"] == []
    assert json.dumps(node)


def test_a_tainted_node_refuses_pods_that_are_not_meant_for_it() -> None:
    node = manifest("n-0", GPU_NODE, {}, taints=["nvidia.com/gpu"])
    assert node["spec"]["taints"] == [{"key": "nvidia.com/gpu", "effect": "NoSchedule"}]
