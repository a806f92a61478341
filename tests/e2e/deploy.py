"""Deployments under test: the examples with the images under test, and how to reach them."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from demo.forward import forwarded
from pd_shared import labels, ports
from tests.kube import Kube, Manifest, example


def tiny(images: dict[str, str], name: str = "tiny", of: str = "tiny-cpu") -> Manifest:
    """An example for the CPU under another name, with the engine image under test."""
    manifest = example(of)
    manifest["metadata"]["name"] = name
    manifest["spec"]["engine"]["image"] = images["engine-cpu"]
    return manifest


def pods(kube: Kube, name: str, namespace: str, component: str) -> list[Manifest]:
    """Pods of one component that are not going away, by name."""
    selector = f"{labels.DEPLOYMENT}={name},{labels.COMPONENT}={component}"
    found = [
        pod
        for pod in kube.list("pods", namespace, selector)
        if "deletionTimestamp" not in pod["metadata"]
    ]
    return sorted(found, key=lambda pod: str(pod["metadata"]["name"]))


def is_ready(pod: Manifest) -> bool:
    """Whether a pod's Ready condition is True."""
    conditions: list[dict[str, Any]] = pod.get("status", {}).get("conditions", [])
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


@contextmanager
def reached(kube: Kube, name: str, namespace: str) -> Iterator[str]:
    """Base URL of a deployment's proxy, for as long as the block lasts."""
    service = f"{name}-proxy"
    if os.environ.get("CLUSTER") in (None, "", "local"):
        # The local cluster's node is this machine: cluster addresses lead there.
        address = kube.get("service", service, namespace)["spec"]["clusterIP"]
        yield f"http://{address}:{ports.HTTP}"
    else:
        with forwarded(kube, f"service/{service}", ports.HTTP, namespace) as port:
            yield f"http://127.0.0.1:{port}"
