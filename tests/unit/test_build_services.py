"""Services and disruption budgets select the right pods."""

from typing import Any

import pytest

from tests.specs import CUDA, STORE, children, deployment, merged


def found() -> dict[tuple[str, str], dict[str, Any]]:
    return children(deployment(merged(CUDA, STORE)))


@pytest.mark.parametrize("component", ["prefiller", "decoder", "proxy", "mooncake"])
def test_service_selects_pods_of_its_component(component: str) -> None:
    everything = found()
    selector = everything["Service", f"tiny-{component}"]["spec"]["selector"].items()
    selected = [
        name
        for (_, name), manifest in everything.items()
        if "template" in manifest.get("spec", {})
        and selector <= manifest["spec"]["template"]["metadata"]["labels"].items()
    ]
    assert [name.rsplit("-", 1)[0] if name.count("-") > 1 else name for name in selected] == [
        f"tiny-{component}"
    ]


@pytest.mark.parametrize("component", ["prefiller", "decoder", "proxy", "mooncake"])
def test_service_ports_exist_in_the_pods(component: str) -> None:
    everything = found()
    service = everything["Service", f"tiny-{component}"]["spec"]
    (workload,) = [
        manifest
        for (kind, name), manifest in everything.items()
        if kind in ("Deployment", "StatefulSet") and name.startswith(f"tiny-{component}")
    ]
    (container,) = workload["spec"]["template"]["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    assert all(ports[port["targetPort"]] == port["port"] for port in service["ports"])


@pytest.mark.parametrize("component", ["prefiller", "decoder"])
def test_tiers_are_headless_and_resolve_unready_pods(component: str) -> None:
    spec = found()["Service", f"tiny-{component}"]["spec"]
    assert spec["clusterIP"] == "None"
    assert spec["publishNotReadyAddresses"] is True


@pytest.mark.parametrize("component", ["prefiller", "decoder", "proxy"])
def test_evictions_take_one_pod_at_a_time(component: str) -> None:
    spec = found()["PodDisruptionBudget", f"tiny-{component}"]["spec"]
    assert spec["maxUnavailable"] == 1
    assert spec["selector"]["matchLabels"] == {
        "pd-operator.io/deployment": "tiny",
        "pd-operator.io/component": component,
    }
