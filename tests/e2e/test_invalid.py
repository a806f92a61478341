"""What the API server cannot see becomes Valid=False, and nothing is made or broken by it."""

import pytest

from pd_shared import labels
from tests.e2e.deploy import tiny
from tests.kube import Kube, until

pytestmark = [pytest.mark.cluster, pytest.mark.engine]

_KINDS = "statefulset,deployment,service,configmap,serviceaccount,role,rolebinding,pdb,pod"


def test_an_invalid_spec_makes_nothing(
    kube: Kube, images: dict[str, str], operator: str, namespace: str
) -> None:
    manifest = tiny(images, "wrong", "store-cpu")
    # More memory for the store than the pod may use: only arithmetic over quantities shows it.
    manifest["spec"]["mooncake"]["store"]["segmentSize"] = "64Gi"
    kube.apply(manifest, namespace)

    def told() -> bool:
        return kube.condition("wrong", namespace, "Valid").get("status") == "False"

    until(told, 30, "Valid=False")
    valid = kube.condition("wrong", namespace, "Valid")
    assert "prefill.resources.limits[memory]" in valid["message"]
    assert "segmentSize" in valid["message"]
    assert valid["reason"] not in ("", "Valid")
    ready = kube.condition("wrong", namespace, "Ready")
    assert ready["status"] == "False"
    assert kube.list(_KINDS, namespace, f"{labels.DEPLOYMENT}=wrong") == []
    described = kube.kubectl("describe", "pdd", "wrong", "-n", namespace)
    assert "prefill.resources.limits[memory]" in described


def test_an_edit_to_an_invalid_spec_leaves_the_children(
    kube: Kube, images: dict[str, str], operator: str, namespace: str
) -> None:
    manifest = tiny(images, "edited")
    kube.apply(manifest, namespace)
    selector = f"{labels.DEPLOYMENT}=edited"
    until(lambda: len(kube.list("statefulset", namespace, selector)) == 2, 30, "StatefulSets")
    before = {c["metadata"]["uid"] for c in kube.list(_KINDS, namespace, selector)}
    # CEL compares no quantities.
    manifest["spec"]["decode"]["resources"]["requests"]["memory"] = "64Gi"
    kube.apply(manifest, namespace)

    def told() -> bool:
        return kube.condition("edited", namespace, "Valid").get("status") == "False"

    until(told, 30, "Valid=False")
    after = {c["metadata"]["uid"] for c in kube.list(_KINDS, namespace, selector)}
    assert before <= after
    assert "decode.resources" in kube.condition("edited", namespace, "Valid")["message"]


def test_a_name_that_is_taken_is_told_and_left_alone(
    kube: Kube, images: dict[str, str], operator: str, namespace: str
) -> None:
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "taken-proxy"},
        "spec": {"ports": [{"port": 1234}], "selector": {"app": "mine"}},
    }
    kube.apply(service, namespace)
    kube.apply(tiny(images, "taken"), namespace)

    def told() -> bool:
        return "taken-proxy" in kube.condition("taken", namespace, "Ready").get("message", "")

    until(told, 30, lambda: str(kube.condition("taken", namespace, "Ready")))
    found = kube.get("service", "taken-proxy", namespace)
    assert found["spec"]["selector"] == {"app": "mine"}
    assert "ownerReferences" not in found["metadata"]
