"""The fence around what asks for no password."""

from typing import Any

import pytest

from pd_shared import labels
from tests.specs import CPU, CUDA, STORE, at, children, deployment, merged

KEY = ("NetworkPolicy", "tiny-engine")
OWN = {"podSelector": {"matchLabels": {labels.DEPLOYMENT: "tiny"}}}


def policy(spec: dict[str, Any]) -> dict[str, Any] | None:
    found = children(deployment(spec)).get(KEY)
    return None if found is None else found["spec"]


def selects(spec: dict[str, Any], pod_labels: dict[str, str]) -> bool:
    selector = spec["podSelector"]
    (unlike,) = selector["matchExpressions"]
    assert unlike["operator"] == "NotIn"
    same = selector["matchLabels"].items() <= pod_labels.items()
    return same and pod_labels.get(unlike["key"]) not in unlike["values"]


@pytest.mark.parametrize("spec", [CPU, CUDA, merged(CUDA, {"mode": "Colocated"})])
def test_only_own_pods_come_in(spec: dict[str, Any]) -> None:
    found = policy(spec)
    assert found is not None
    assert found["policyTypes"] == ["Ingress"]
    assert found["ingress"] == [{"from": [OWN]}]


POOL = at("mooncake.store", {"enabled": True, "mode": "Standalone"})
SERVER = at("kvTransfer.connector", "LMCacheMP")


@pytest.mark.parametrize("base", [merged(CUDA, STORE), merged(CUDA, POOL), merged(CPU, SERVER)])
def test_every_pod_but_the_proxys_is_behind_it_and_all_may_come_in(base: dict[str, Any]) -> None:
    found = policy(base)
    assert found is not None
    pods = [
        each["spec"]["template"]["metadata"]["labels"]
        for (kind, _), each in children(deployment(base)).items()
        if kind in ("StatefulSet", "Deployment")
    ]
    assert len(pods) >= 4
    for pod_labels in pods:
        assert OWN["podSelector"]["matchLabels"].items() <= pod_labels.items()
        proxy = pod_labels[labels.COMPONENT] == labels.PROXY
        assert selects(found, pod_labels) is not proxy
    assert not selects(found, {**pods[0], labels.DEPLOYMENT: "other"})


def test_monitoring_reaches_the_engines_http_port_alone() -> None:
    found = policy(merged(CUDA, at("network.monitoringNamespaces", ["monitoring", "b"])))
    assert found is not None
    own, scrape = found["ingress"]
    assert own == {"from": [OWN]}
    assert scrape["ports"] == [{"port": 8000, "protocol": "TCP"}]
    assert [one["namespaceSelector"]["matchLabels"] for one in scrape["from"]] == [
        {"kubernetes.io/metadata.name": "monitoring"}, {"kubernetes.io/metadata.name": "b"},
    ]  # fmt: skip


@pytest.mark.parametrize(
    "changes", [at("network.isolation", "Disabled"), at("rdma.hostNetwork", True)]
)
def test_no_fence_where_it_is_not_wanted_or_would_not_hold(changes: dict[str, Any]) -> None:
    assert policy(merged(CUDA, changes)) is None


def test_engines_off_the_nodes_network_are_fenced_in_again() -> None:
    host = at("rdma.hostNetwork", True)
    assert policy(merged(merged(CUDA, host), {"mode": "Colocated"})) is not None
