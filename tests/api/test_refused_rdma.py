"""What the API server refuses of `spec.rdma`."""

from typing import Any

import pytest

from tests.api.conftest import Submit
from tests.specs import merged

pytestmark = pytest.mark.cluster


def manifest(rdma: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "pd-operator.io/v1alpha1",
        "kind": "PDDeployment",
        "metadata": {"name": "ok"},
        "spec": {"model": {"id": "org/model"}, "engine": {"image": "vllm:1"}, "rdma": rdma},
    }


@pytest.mark.parametrize(
    ("rdma", "expected"),
    [
        ({"resources": {"rdma/a": 1}, "count": 1}, "not allowed where rdma.resources is set"),
        ({"resources": {"rdma/a": 1}, "resource": "rdma/b"}, "where rdma.resources is set"),
        ({"resources": {"hca": 1}}, "keys of rdma.resources must be names like rdma/hca"),
        ({"resources": {"rdma/a": 0}}, "greater than or equal to 1"),
        ({"resources": {f"rdma/r{i}": 1 for i in range(9)}}, "at most 8"),
        ({"networks": ["a"], "hostNetwork": True}, "rdma.networks is not allowed where"),
        ({"networks": ["a,b"]}, "spec.rdma.networks[0]"),
        ({"gidIndex": -1}, "spec.rdma.gidIndex"),
        ({"mtu": 9000}, "spec.rdma.mtu"),
        ({"trafficClass": 256}, "spec.rdma.trafficClass"),
        ({"serviceLevel": 16}, "spec.rdma.serviceLevel"),
        ({"pkeyIndex": 65536}, "spec.rdma.pkeyIndex"),
        ({"memoryRegistration": "dmabuf"}, "spec.rdma.memoryRegistration"),
        ({"hostNetwork": "yes"}, "spec.rdma.hostNetwork"),
    ],
    ids=str,
)
def test_refused(submit: Submit, rdma: dict[str, Any], expected: str) -> None:
    message = submit(manifest(rdma))
    assert expected in message, message or "accepted"


@pytest.mark.parametrize(
    "rdma",
    [
        {"resources": {"nvidia.com/mlnxnics": 8}, "networks": ["roce/a@net1", "b"]},
        {"resources": {}, "count": 2, "networks": [], "hostNetwork": True},
        {"gidIndex": 3, "mtu": 4096, "trafficClass": 106, "serviceLevel": 3, "pkeyIndex": 0},
        {"memoryRegistration": "DMABuf"},
    ],
    ids=str,
)
def test_accepted(submit: Submit, rdma: dict[str, Any]) -> None:
    assert submit(manifest(rdma)) == ""


def test_partition_by_index_with_nixl(submit: Submit) -> None:
    nixl = {"spec": {"kvTransfer": {"connector": "Nixl"}}}
    message = submit(merged(manifest({"pkeyIndex": 1}), nixl))
    assert "rdma.pkeyIndex is not allowed with connector Nixl" in message, message or "accepted"
    assert submit(merged(manifest({"mtu": 1024, "trafficClass": 3}), nixl)) == ""
