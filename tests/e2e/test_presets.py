"""Presets that are ConfigMaps: missing, made, changed; the operator follows."""

from typing import Any

import pytest

from pd_operator import presets
from pd_shared import labels
from tests.kube import Kube, Manifest, example, until

pytestmark = pytest.mark.cluster

NAME = "tiny"
SECONDS = 60.0
"""Far more than the time after which ConfigMaps of presets are read again."""


def preset(text: str) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": "house", "labels": {presets.LABEL: "true"}},
        "data": {presets.KEY: text},
    }


def status(kube: Kube, namespace: str) -> dict[str, Any]:
    found: dict[str, Any] = (kube.find("pdd", NAME, namespace) or {}).get("status", {})
    return found


def valid(kube: Kube, namespace: str, status: str, reason: str) -> dict[str, Any]:
    def look() -> dict[str, Any] | None:
        found = kube.condition(NAME, namespace, "Valid")
        right = (found.get("status"), found.get("reason")) == (status, reason)
        return found if right else None

    return until(look, SECONDS, lambda: str(kube.condition(NAME, namespace, "Valid")))


def test_a_preset_comes_and_changes(
    kube: Kube, images: dict[str, str], operator: str, namespace: str
) -> None:
    manifest = example("tiny-cpu")
    engine = manifest["spec"].pop("engine")
    # The image has no engine, and so costs no time.
    manifest["spec"] |= {"presets": ["laptop-cpu", "house"], "engine": {"image": images["proxy"]}}
    kube.apply(manifest, namespace)
    message = valid(kube, namespace, "False", "PresetNotFound")["message"]
    assert "'house'" in message
    assert "laptop-cpu" in message
    selector = f"{labels.DEPLOYMENT}={NAME}"
    assert kube.list("statefulset", namespace, selector) == []

    kube.apply(preset(f"engine: {{version: {engine['version']}}}"), namespace)
    valid(kube, namespace, "True", "Valid")
    until(lambda: len(kube.list("statefulset", namespace, selector)) == 2, SECONDS, "both tiers")
    first = until(lambda: status(kube, namespace).get("specHash"), SECONDS, "a hash")

    kube.apply(preset("mode: Colocated"), namespace)

    def changed() -> bool:
        found = status(kube, namespace)
        return found.get("specHash") not in (None, first) and found.get("mode") == "Colocated"

    until(changed, SECONDS, lambda: f"another hash than {first}: {status(kube, namespace)}")

    kube.apply(preset("mode: Sideways"), namespace)
    assert "mode" in valid(kube, namespace, "False", "InvalidSpec")["message"]
