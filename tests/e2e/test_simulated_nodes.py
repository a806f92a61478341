"""The RDMA example on simulated nodes with GPUs: what is asked for, where pods go, what is told."""

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from pd_shared import labels
from tests import cluster
from tests.e2e.deploy import is_ready, pods
from tests.kube import Kube, Manifest, example, until

pytestmark = pytest.mark.cluster

GPUS = "nvidia.com/gpu"
RDMA = "rdma/hca_shared_devices_a"
PRODUCT = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}


@pytest.fixture(scope="module")
def gpu_nodes(kube: Kube) -> Iterator[list[str]]:
    """Two H100 nodes of eight GPUs and four RDMA devices; pods must tolerate their taint."""
    capacity = {**cluster.GPU_NODE, RDMA: "4"}
    with cluster.simulated_nodes(
        2, capacity, prefix="h100", labels=PRODUCT, taints=[GPUS]
    ) as names:
        yield names


@pytest.fixture
def llama(kube: Kube, operator: str, gpu_nodes: list[str], namespace: str) -> Manifest:
    """The example h100-rdma, with its Secret, not yet applied."""
    kube.kubectl(
        *("create", "secret", "generic", "hugging-face", "--from-literal=token=hf_x"),
        *("-n", namespace),
    )
    return example("h100-rdma")


def tiers(kube: Kube, namespace: str) -> list[Manifest]:
    return [
        pod
        for component in (labels.PREFILLER, labels.DECODER)
        for pod in pods(kube, "llama", namespace, component)
    ]


def asked(pod: Manifest, resource: str) -> int:
    limits: list[dict[str, Any]] = [
        container["resources"].get("limits", {}) for container in pod["spec"]["containers"]
    ]
    return sum(int(limit.get(resource, 0)) for limit in limits)


def test_the_rdma_example_runs_on_gpu_nodes(
    kube: Kube, llama: Manifest, gpu_nodes: list[str], namespace: str
) -> None:
    kube.apply(llama, namespace)
    until(
        lambda: (
            kube.condition("llama", namespace, "PrefillReady").get("status") == "True"
            and kube.condition("llama", namespace, "DecodeReady").get("status") == "True"
        ),
        90,
        lambda: kube.kubectl("get", "pods", "-n", namespace, "-o", "wide"),
    )
    engines = tiers(kube, namespace)
    assert len(engines) == 4
    assert all(is_ready(pod) for pod in engines)
    assert {asked(pod, GPUS) for pod in engines} == {4}
    assert {asked(pod, RDMA) for pod in engines} == {1}
    used = Counter(pod["spec"]["nodeName"] for pod in engines)
    assert dict(used) == dict.fromkeys(gpu_nodes, 2)  # 16 GPUs, all in use
    proxies = pods(kube, "llama", namespace, labels.PROXY)
    assert not {pod["spec"].get("nodeName") for pod in proxies} & set(gpu_nodes)


@pytest.mark.parametrize(
    ("resource", "told"),
    [("rdma/not_on_any_node", "Insufficient rdma/not_on_any_node"), (RDMA, f"Insufficient {RDMA}")],
)
def test_a_resource_that_no_node_has_is_told(
    kube: Kube, llama: Manifest, namespace: str, resource: str, told: str
) -> None:
    llama["spec"]["rdma"] = {**llama["spec"]["rdma"], "resource": resource, "count": 8}
    kube.apply(llama, namespace)

    def condition(kind: str) -> Manifest:
        return kube.condition("llama", namespace, kind)

    until(
        lambda: condition("PrefillReady").get("reason") == "Unschedulable",
        60,
        lambda: str(condition("PrefillReady")),
    )
    assert told in condition("PrefillReady")["message"]
    until(
        lambda: condition("Ready").get("reason") == "Unschedulable",
        30,
        lambda: str(condition("Ready")),
    )
    assert condition("Ready")["status"] == "False"
    assert told in condition("Ready")["message"]
