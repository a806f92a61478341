"""Tiers of other shapes than one rank per pod: tensor parallelism, and replicas of two pods."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from demo.proof import moved_tokens
from pd_shared import labels
from tests import shared
from tests.e2e.client import completion, send
from tests.e2e.deploy import is_ready, pods, reached, tiny
from tests.kube import Kube, Manifest, until

pytestmark = [pytest.mark.cluster, pytest.mark.engine]

_START_SECONDS = 300
"""Two ranks, or two engines, load at once on few cores."""
_PROMPT = " ".join(["a", "prefiller", "reads", "the", "prompt"] * 40)


@contextmanager
def running(kube: Kube, images: dict[str, str], namespace: str, of: str) -> Iterator[str]:
    """URL of the example `of`, running as `tiny` in a namespace of its own."""
    with shared.namespace(kube, namespace):
        kube.apply(tiny(images, of=of), namespace)
        kube.wait_ready("tiny", namespace, _START_SECONDS)
        with reached(kube, "tiny", namespace) as url:
            yield url


def ask(url: str, salt: str) -> int:
    """The prompt tokens of one answered request."""
    reply = send(url, "/v1/completions", completion(f"{salt} {_PROMPT}", max_tokens=4))
    assert reply.status == 200, reply.error
    return int(reply.usage["prompt_tokens"])


def test_tensor_parallel_prefiller_with_a_decoder_of_one_rank(
    kube: Kube, images: dict[str, str], operator: str
) -> None:
    with running(kube, images, "t-tensor", "tp2-tp1-cpu") as url:
        before = sum(moved_tokens(kube, "tiny", "t-tensor").values())
        asked = sum(ask(url, salt) for salt in ("one", "two", "three"))
        assert sum(moved_tokens(kube, "tiny", "t-tensor").values()) - before == asked


def test_a_replica_of_two_pods_serves_and_restarts_as_one(
    kube: Kube, images: dict[str, str], operator: str
) -> None:
    namespace = "t-groups"
    with running(kube, images, namespace, "two-pods-cpu") as url:
        leader, worker = pods(kube, "tiny", namespace, labels.DECODER)
        assert kube.get("pdd", "tiny", namespace)["status"]["decode"]["readyReplicas"] == 1
        for salt in ("one", "two", "three", "four"):
            ask(url, salt)

        kube.kubectl("delete", "pod", worker["metadata"]["name"], "-n", namespace, "--wait=false")

        def again() -> tuple[Manifest, ...] | None:
            found = pods(kube, "tiny", namespace, labels.DECODER)
            ready = len(found) == 2 and all(map(is_ready, found))
            new = ready and found[1]["metadata"]["uid"] != worker["metadata"]["uid"]
            return tuple(found) if new and restarts(found[0]) > restarts(leader) else None

        until(again, _START_SECONDS, "the whole group to have started again")
        kube.wait_ready("tiny", namespace, _START_SECONDS)
        ask(url, "five")


def restarts(pod: Manifest) -> int:
    """Of the engine, in this pod."""
    (status,) = pod["status"]["containerStatuses"]
    return int(status["restartCount"])
