"""Deployments share nothing; a deleted one leaves nothing."""

import pytest

from demo.proof import moved_tokens
from pd_shared import labels
from tests.e2e.client import completion, send
from tests.e2e.conftest import Pair
from tests.e2e.deploy import pods, reached, tiny
from tests.kube import Kube, Manifest, until

pytestmark = [pytest.mark.cluster, pytest.mark.engine]

_ALL = (
    "statefulset,deployment,replicaset,pod,service,configmap,serviceaccount,role,rolebinding,"
    "poddisruptionbudget,networkpolicy,controllerrevision,endpointslice"
)


def _owned(kube: Kube, name: str, namespace: str) -> list[Manifest]:
    return kube.list(_ALL, namespace, f"{labels.DEPLOYMENT}={name}")


def test_namesakes_and_neighbours_share_nothing(
    kube: Kube, images: dict[str, str], pair: Pair, namespace: str
) -> None:
    """`tiny` here and `tiny` of the pair's namespace, and `tiny-2` beside it."""
    kube.apply(tiny(images, "tiny"), namespace)
    kube.apply(tiny(images, "tiny-2"), namespace)
    places = [(pair.namespace, pair.name), (namespace, "tiny"), (namespace, "tiny-2")]
    for where, name in places:
        kube.wait_ready(name, where, timeout=240)
    for where, name in places:
        engines = [
            pod["metadata"]["name"]
            for component in (labels.PREFILLER, labels.DECODER)
            for pod in pods(kube, name, where, component)
        ]
        with reached(kube, name, where) as url:
            others = {p: moved_tokens(kube, p[1], p[0]) for p in places if p != (where, name)}
            for i in range(4):
                body = completion(f"isolation {where} {name} {i}")
                reply = send(url, "/v1/completions", body)
                assert reply.status == 200, reply.error
                assert reply.headers["x-pd-prefiller"] in engines
                assert reply.headers["x-pd-decoder"] in engines
            assert others == {p: moved_tokens(kube, p[1], p[0]) for p in others}
    _deleting_removes_everything(kube, namespace)


def _deleting_removes_everything(kube: Kube, namespace: str) -> None:
    assert _owned(kube, "tiny-2", namespace)
    kept = {item["metadata"]["uid"] for item in _owned(kube, "tiny", namespace)}
    kube.kubectl("delete", "pdd", "tiny-2", "-n", namespace)
    until(lambda: not _owned(kube, "tiny-2", namespace), 180, "no child of tiny-2")
    assert kept <= {item["metadata"]["uid"] for item in _owned(kube, "tiny", namespace)}


def test_deleting_the_resource_at_once_leaves_nothing(
    kube: Kube, images: dict[str, str], operator: str, namespace: str
) -> None:
    """Deleted while its children are being made.

    An engine that still starts heeds no SIGTERM, so its pod may go on for its grace period.
    """
    kube.apply(tiny(images, "brief"), namespace)
    until(lambda: _owned(kube, "brief", namespace), 30, "a first child")
    kube.kubectl("delete", "pdd", "brief", "-n", namespace)

    def left() -> list[Manifest]:
        children = _owned(kube, "brief", namespace)
        return [c for c in children if c["kind"] != "Pod" or _stays(c)]

    until(lambda: not left(), 120, "no child but pods that are going")


def _stays(pod: Manifest) -> bool:
    return "deletionTimestamp" not in pod["metadata"]
