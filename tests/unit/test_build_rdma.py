"""RDMA devices, networks and the wire in the pods of engines."""

from typing import Any

import pytest

from pd_shared.labels import DECODER, PREFILLER
from tests.specs import CUDA, at, deployment, engine_pod, merged, part, variables


def rdma(**fields: Any) -> dict[str, Any]:
    return merged(CUDA, at("rdma", fields))


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("gidIndex", 3, dict.fromkeys(
            ("MC_GID_INDEX", "NCCL_IB_GID_INDEX", "UCX_IB_GID_INDEX"), "3")),
        ("mtu", 1024, {"MC_MTU": "1024"}),
        ("trafficClass", 106, {"MC_IB_TC": "106"}),
        ("serviceLevel", 0, {"MC_IB_SL": "0"}),
        ("pkeyIndex", 1, {"MC_PKEY_INDEX": "1"}),
        ("memoryRegistration", "DMABuf", {"WITH_NVIDIA_PEERMEM": "0"}),
        ("memoryRegistration", "Peermem", {"WITH_NVIDIA_PEERMEM": "1"}),
    ],
)  # fmt: skip
def test_variables(field: str, value: Any, expected: dict[str, str]) -> None:
    before = variables(CUDA, PREFILLER)
    after = variables(rdma(**{field: value}), PREFILLER)
    assert {name: after[name] for name in after.keys() - before.keys()} == expected


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("gidIndex", 3, {"UCX_IB_GID_INDEX": "3"}),
        ("mtu", 1024, {"UCX_IB_PATH_MTU": "1024"}),
        ("trafficClass", 106, {"UCX_IB_TRAFFIC_CLASS": "106"}),
        ("serviceLevel", 0, {"UCX_IB_SL": "0"}),
        ("memoryRegistration", "DMABuf", {"UCX_CUDA_COPY_DMABUF": "yes"}),
        ("memoryRegistration", "Peermem", {"UCX_CUDA_COPY_DMABUF": "no"}),
        ("devices", ["mlx5_0", "mlx5_1"], {"UCX_NET_DEVICES": "mlx5_0:1,mlx5_1:1"}),
    ],
)
def test_variables_of_ucx(field: str, value: Any, expected: dict[str, str]) -> None:
    nixl = at("kvTransfer.connector", "Nixl")
    before = variables(merged(CUDA, nixl), DECODER)
    after = variables(merged(rdma(**{field: value}), nixl), DECODER)
    added = {name: after[name] for name in after.keys() - before.keys()}
    assert {name: value for name, value in added.items() if name.startswith("UCX_")} == expected


@pytest.mark.parametrize("connector", ["MooncakeStore", "LMCache", "Multi"])
def test_variables_of_mooncake_are_those_of_every_connector_over_it(connector: str) -> None:
    fields = {"mtu": 1024, "trafficClass": 1, "serviceLevel": 2, "pkeyIndex": 3, "gidIndex": 4}
    found = variables(merged(rdma(**fields), at("kvTransfer.connector", connector)), DECODER)
    given = [found[f"MC_{name}"] for name in ("MTU", "IB_TC", "IB_SL", "PKEY_INDEX", "GID_INDEX")]
    assert given == ["1024", "1", "2", "3", "4"]


def test_several_resources() -> None:
    container = engine_pod(rdma(resources={"rdma/b": 2, "rdma/a": 1}), DECODER)["containers"][0]
    asked = {"nvidia.com/gpu": "1", "rdma/a": "1", "rdma/b": "2"}
    assert container["resources"] == {"requests": asked, "limits": asked}


def test_networks_of_multus() -> None:
    given = part(rdma(networks=["roce-a", "ns/roce-b@net2"]), DECODER).annotations
    assert given["k8s.v1.cni.cncf.io/networks"] == "roce-a,ns/roce-b@net2"
    assert "k8s.v1.cni.cncf.io/networks" not in part(CUDA, DECODER).annotations


def test_network_of_the_node() -> None:
    pod = engine_pod(rdma(hostNetwork=True), PREFILLER)
    assert (pod["hostNetwork"], pod["dnsPolicy"]) == (True, "ClusterFirstWithHostNet")
    ports = pod["containers"][0]["ports"]
    assert ports
    assert all(port["hostPort"] == port["containerPort"] for port in ports)
    affinity = pod["affinity"]["podAntiAffinity"]
    (apart,) = affinity["requiredDuringSchedulingIgnoredDuringExecution"]
    assert apart["topologyKey"] == "kubernetes.io/hostname"
    (either,) = apart["labelSelector"]["matchExpressions"]
    assert either["values"] == [DECODER, PREFILLER], "both tiers have the same ports"


def test_network_of_the_pod_is_the_default() -> None:
    pod = engine_pod(CUDA, PREFILLER)
    assert "hostNetwork" not in pod
    assert not any("hostPort" in port for port in pod["containers"][0]["ports"])


def test_devices_are_asked_for_by_default() -> None:
    spec = deployment(rdma(resources={}, count=2)).spec.rdma
    assert spec
    assert spec.requested == {"rdma/hca_shared_devices_a": 2}
