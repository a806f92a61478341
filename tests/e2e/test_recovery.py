"""Whatever is deleted comes back by itself, and requests answer again."""

import secrets
import time
from collections.abc import Iterator

import pytest

from pd_shared import labels
from tests import shared
from tests.conftest import RELEASE
from tests.e2e.client import completion, send
from tests.e2e.conftest import Pair
from tests.e2e.deploy import is_ready, pods, reached, tiny
from tests.kube import Kube, Manifest, until

pytestmark = [pytest.mark.cluster, pytest.mark.engine]

_CHILDREN = (
    *("statefulset", "deployment", "service", "configmap", "serviceaccount"),
    *("role", "rolebinding", "poddisruptionbudget", "networkpolicy"),
)
_NORMAL = 60.0
"""Seconds: far above a normal answer, far below vLLM's abort timeout."""


@pytest.fixture(scope="module")
def stored(kube: Kube, images: dict[str, str], operator: str) -> Iterator[Pair]:
    """A pair with the store, so that every kind of child is there."""
    namespace = "t-recovery"
    shared.create_namespace(kube, namespace)
    kube.apply(tiny(images, "stored", "store-cpu"), namespace)
    kube.wait_ready("stored", namespace)
    with reached(kube, "stored", namespace) as url:
        yield Pair("stored", namespace, url)
    shared.drop_namespace(kube, namespace)


def _serves(pair: Pair) -> None:
    """Three requests that nothing has cached answer within their normal time."""
    for _ in range(3):
        start = time.monotonic()
        body = completion(f"{secrets.token_hex(8)} after the fault", "tiny", stream=True)
        reply = send(pair.url, "/v1/completions", body, timeout=_NORMAL)
        assert (reply.status, reply.error) == (200, "")
        assert time.monotonic() - start < _NORMAL


def _replaced(kube: Kube, pair: Pair, component: str, before: list[Manifest]) -> None:
    """Wait until as many other pods are Ready as there were."""
    gone = {pod["metadata"]["uid"] for pod in before}

    def back() -> bool:
        now = pods(kube, pair.name, pair.namespace, component)
        fresh = [p for p in now if p["metadata"]["uid"] not in gone and is_ready(p)]
        return len(fresh) == len(before)

    until(back, 120, f"{component} pods anew")


@pytest.mark.parametrize(
    "component", [labels.PREFILLER, labels.DECODER, labels.PROXY, labels.MOONCAKE]
)
def test_a_deleted_pod_comes_back(kube: Kube, stored: Pair, component: str) -> None:
    before = pods(kube, stored.name, stored.namespace, component)
    assert before
    names = [pod["metadata"]["name"] for pod in before]
    kube.kubectl("delete", "pod", *names, "-n", stored.namespace, "--wait=false")
    _replaced(kube, stored, component, before)
    kube.wait_ready(stored.name, stored.namespace)
    _serves(stored)


def test_a_killed_prefiller_process_hangs_no_request(kube: Kube, stored: Pair) -> None:
    """The container restarts in the same pod: same address, new engine id."""
    (prefiller,) = pods(kube, stored.name, stored.namespace, labels.PREFILLER)
    name = prefiller["metadata"]["name"]
    kill = "import os, signal; os.kill(1, signal.SIGTERM)"
    kube.kubectl("exec", name, "-n", stored.namespace, "--", "python3", "-c", kill)

    def restarted() -> bool:
        pod = kube.get("pod", name, stored.namespace)
        return pod["status"]["containerStatuses"][0]["restartCount"] > 0 and is_ready(pod)

    until(restarted, 120, "the prefiller's container restarted")
    _serves(stored)


@pytest.mark.alone
def test_a_deleted_operator_pod_changes_nothing(kube: Kube, pair: Pair, operator: str) -> None:
    selector = f"app.kubernetes.io/instance={RELEASE}"
    before = kube.list("pods", operator, selector)
    kube.kubectl("delete", "pod", "-l", selector, "-n", operator, "--wait=false")
    _serves(pair)
    gone = {pod["metadata"]["uid"] for pod in before}

    def back() -> bool:
        now = kube.list("pods", operator, selector)
        ready = [p for p in now if p["metadata"]["uid"] not in gone and is_ready(p)]
        return len(ready) == len(before)

    until(back, 120, "the operator's pods anew")
    # It works again: a child that is deleted now comes back.
    service = f"{pair.name}-prefiller"
    kube.kubectl("delete", "service", service, "-n", pair.namespace)
    until(lambda: kube.find("service", service, pair.namespace), 60, f"service {service}")


@pytest.mark.timeout(900)
def test_each_deleted_child_comes_back(kube: Kube, stored: Pair) -> None:
    """All children of all kinds are deleted one by one, each back before the next."""
    selector = f"{labels.DEPLOYMENT}={stored.name}"
    for kind in _CHILDREN:
        children = kube.list(kind, stored.namespace, selector)
        children = [c for c in children if "ownerReferences" in c["metadata"]]
        assert children, f"no {kind}"
        for child in children:
            name, uid = child["metadata"]["name"], child["metadata"]["uid"]
            kube.kubectl("delete", kind, name, "-n", stored.namespace, "--wait=false")

            def back(kind: str = kind, name: str = name, uid: str = uid) -> bool:
                found = kube.find(kind, name, stored.namespace)
                return found is not None and found["metadata"]["uid"] != uid

            until(back, 60, f"{kind} {name} anew")
    # KV that went with a prefiller of the tests before is told for five minutes.
    kube.wait_ready(stored.name, stored.namespace, 420)

    # The proxy Service has another address now.
    with reached(kube, stored.name, stored.namespace) as url:
        _serves(Pair(stored.name, stored.namespace, url))


def test_a_child_edited_by_hand_is_put_back(kube: Kube, stored: Pair) -> None:
    service = f"{stored.name}-proxy"
    before = kube.get("service", service, stored.namespace)["spec"]["selector"]
    kube.patch(
        "service", service, stored.namespace, {"spec": {"selector": {labels.COMPONENT: "x"}}}
    )
    until(
        lambda: kube.get("service", service, stored.namespace)["spec"]["selector"] == before,
        60,
        "the Service's selector as before",
    )
