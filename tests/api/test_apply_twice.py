"""What was applied and is applied again changes nothing, on a real API server."""

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from pd_operator.api.deployment import parse
from pd_operator.build import Defaults, desired
from pd_operator.compare import contains
from pd_operator.plan import with_replicas
from pd_operator.validate import problems
from tests.api.test_children import PLAIN, specs
from tests.kube import Kube, Manifest, until
from tests.specs import at, merged

pytestmark = pytest.mark.cluster

DEFAULTS = Defaults(proxy_image="r.example/proxy:1", mooncake_image="r.example/mooncake:1")
DIVIDED = {"resource": "limits.cpu", "divisor": "1000m"}
ODD: dict[str, Any] = {
    "volumes": [{"name": "scratch", "emptyDir": {"sizeLimit": "1024Mi"}}],
    "containers": [
        {
            "name": "sidecar",
            "image": "r.example/sidecar:1",
            "resources": {"requests": {"cpu": "1000m"}, "limits": {"cpu": 2, "memory": "1024Mi"}},
            "env": [{"name": "CPU", "valueFrom": {"resourceFieldRef": DIVIDED}}],
        }
    ],
}
"""Quantities that the API server writes in another form."""

CASES = {
    name: specs()[name]
    for name in (
        "tiny-cpu", "store", "nixl-rdma", "rdma-host-network", "lmcache-mooncake-store",
        "gang-volcano", "pod-overrides", "store-standalone-pool",
    )
} | {"odd": merged(PLAIN, at("prefill.podOverrides.spec", ODD))}  # fmt: skip


def rendered(spec: dict[str, Any], namespace: str) -> list[Manifest]:
    """All children, without pods and without an owner: there is none, so they would be deleted."""
    deployment = parse({"metadata": {"name": "twice", "namespace": namespace, "uid": "0-0"},
                        "spec": spec})  # fmt: skip
    assert problems(deployment) == ()
    built = desired(deployment, DEFAULTS)
    objects = [*built.objects, *(with_replicas(tier, 0) for tier in built.tiers)]
    for each in objects:
        each["metadata"].pop("ownerReferences")
        if each["kind"] == "Deployment":
            each["spec"]["replicas"] = 0
    return objects


def apply(kube: Kube, objects: list[Manifest]) -> None:
    kube.kubectl(
        *("apply", "--server-side", "--field-manager=pd-operator", "--force-conflicts"),
        *("--validate=strict", "-f", "-"),
        stdin=yaml.safe_dump_all(objects),
    )


def live(kube: Kube, objects: list[Manifest]) -> list[Manifest]:
    return [
        kube.get(each["kind"], each["metadata"]["name"], each["metadata"]["namespace"])
        for each in objects
    ]


def versions(found: list[Manifest]) -> list[str]:
    return [f"{each['kind']} {each['metadata']['resourceVersion']}" for each in found]


@pytest.fixture
def namespace(kube: Kube, request: pytest.FixtureRequest) -> Iterator[str]:
    name = f"t-twice-{request.node.callspec.params['name']}"
    kube.kubectl("create", "namespace", name)
    yield name
    kube.kubectl("delete", "namespace", name, "--wait=false")


@pytest.mark.parametrize("name", CASES)
def test_a_second_apply_changes_nothing(kube: Kube, namespace: str, name: str) -> None:
    objects = rendered(CASES[name], namespace)
    apply(kube, objects)
    before: list[str] = []

    def settled() -> bool:
        # Controllers write each object's status once.
        nonlocal before
        last, before = before, versions(live(kube, objects))
        observed = [
            each["metadata"]["generation"] == each["status"].get("observedGeneration")
            for each in live(kube, objects)
            if each["kind"] in ("Deployment", "StatefulSet", "PodDisruptionBudget")
        ]
        return all(observed) and last == before

    until(settled, 60, lambda: str(before))
    apply(kube, rendered(CASES[name], namespace))
    after = live(kube, objects)
    assert versions(after) == before
    # The operator sees it the same way, so it does not even ask.
    assert [each["kind"] for each, wanted in zip(after, objects, strict=True)
            if not contains(each, wanted)] == []  # fmt: skip
