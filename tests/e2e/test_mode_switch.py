"""From Colocated to Disaggregated and back by one field, and no request notices."""

import json
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from demo.proof import moved_tokens
from pd_shared import labels
from tests.e2e.client import completion, send
from tests.e2e.deploy import pods, reached, tiny
from tests.kube import Kube, Manifest, until

pytestmark = [pytest.mark.cluster, pytest.mark.engine]

NAME = "tiny-colocated"
STREAMS = 2


class Load:
    """Requests one after the other, on each of some threads; nothing is cached for any of them."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.answered = 0
        self.failures: list[str] = []
        self.over = threading.Event()

    def run(self) -> None:
        while not self.over.is_set():
            body = completion(f"{secrets.token_hex(8)} while it switches", stream=True)
            try:
                reply = send(self.url, "/v1/completions", body)
            except OSError as error:
                self.failures.append(repr(error))
                continue
            if (reply.status, reply.error) == (200, ""):
                self.answered += 1
            else:
                self.failures.append(f"{reply.status} {reply.error}")

    def more(self) -> None:
        """Wait until some more were answered."""
        enough = self.answered + 3 * STREAMS
        until(lambda: self.answered >= enough, 120, lambda: f"answers; {self.failures[:3]}")


@contextmanager
def load(url: str) -> Iterator[Load]:
    made = Load(url)
    threads = [threading.Thread(target=made.run, daemon=True) for _ in range(STREAMS)]
    for thread in threads:
        thread.start()
    try:
        yield made
    finally:
        made.over.set()
        for thread in threads:
            thread.join(120)


def switch(kube: Kube, namespace: str, mode: str) -> None:
    patch = json.dumps({"spec": {"mode": mode}})
    kube.kubectl("patch", "pdd", NAME, "-n", namespace, "--type=merge", "-p", patch)


def settled(kube: Kube, namespace: str, prefillers: int, decoders: int) -> None:
    """Wait until it is Ready and only pods of the mode are there, on their way out or not."""
    kube.wait_ready(NAME, namespace, 300)
    for component, number in ((labels.PREFILLER, prefillers), (labels.DECODER, decoders)):
        selector = f"{labels.DEPLOYMENT}={NAME},{labels.COMPONENT}={component}"

        def right(selector: str = selector, number: int = number) -> bool:
            return len(kube.list("pods", namespace, selector)) == number

        until(right, 240, f"{number} pods of the {component}")


def connectors(kube: Kube, namespace: str) -> list[str]:
    found: list[Manifest] = pods(kube, NAME, namespace, labels.DECODER)
    return [pod["metadata"].get("annotations", {}).get(labels.CONNECTOR, "") for pod in found]


@pytest.mark.timeout(1200)
def test_switching_under_load_fails_no_request(
    kube: Kube, images: dict[str, str], operator: str, namespace: str
) -> None:
    kube.apply(tiny(images, NAME, "colocated-cpu"), namespace)
    settled(kube, namespace, 0, 1)
    assert connectors(kube, namespace) == [labels.COLOCATED]
    assert kube.find("service", f"{NAME}-prefiller", namespace) is None
    assert kube.condition(NAME, namespace, "PrefillReady") == {}

    with reached(kube, NAME, namespace) as url:
        with load(url) as requests:
            requests.more()
            switch(kube, namespace, "Disaggregated")
            settled(kube, namespace, 1, 1)
            requests.more()
        assert requests.failures == []
        assert connectors(kube, namespace) != [labels.COLOCATED]

        def moves() -> bool:
            before = sum(moved_tokens(kube, NAME, namespace).values())
            prompt = f"{secrets.token_hex(8)} " + "after the switch " * 20
            reply = send(url, "/v1/completions", completion(prompt))
            assert reply.status == 200, reply.error
            return sum(moved_tokens(kube, NAME, namespace).values()) > before

        until(moves, 120, "KV that moves")

        with load(url) as requests:
            requests.more()
            switch(kube, namespace, "Colocated")
            settled(kube, namespace, 0, 1)
            requests.more()
        assert requests.failures == []
    assert connectors(kube, namespace) == [labels.COLOCATED]
    until(
        lambda: kube.find("service", f"{NAME}-prefiller", namespace) is None,
        60,
        "the prefillers' Service gone",
    )
