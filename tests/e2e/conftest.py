"""Fixtures of the end-to-end tests: one prefill/decode pair that many tests may use."""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import pytest

from demo.forward import forwarded
from pd_shared import labels, ports
from tests import shared
from tests.conformance.pair import Pair as Engines
from tests.e2e.deploy import pods, reached, tiny
from tests.kube import Kube


@dataclass(frozen=True)
class Pair:
    """A running deployment: nobody may change it."""

    name: str
    namespace: str
    url: str


@pytest.fixture(scope="session")
def pair(kube: Kube, images: dict[str, str], operator: str) -> Iterator[Pair]:
    """The example tiny-cpu, Ready; for tests that only look at it and send requests."""

    def make() -> None:
        shared.create_namespace(kube, shared.PAIR)
        kube.apply(tiny(images), shared.PAIR)
        kube.wait_ready("tiny", shared.PAIR)

    shared.once("pair", make)
    with reached(kube, "tiny", shared.PAIR) as url:
        yield Pair("tiny", shared.PAIR, url)


@pytest.fixture(scope="session")
def engines(kube: Kube, pair: Pair) -> Iterator[Engines]:
    """The engines of the pair, asked without the proxy."""
    (prefiller,) = pods(kube, pair.name, pair.namespace, labels.PREFILLER)
    (decoder,) = pods(kube, pair.name, pair.namespace, labels.DECODER)
    address = prefiller["status"]["podIP"]
    with ExitStack() as stack:

        def url(pod: dict[str, Any], port: int) -> str:
            if os.environ.get("CLUSTER") in (None, "", "local"):
                return f"http://{pod['status']['podIP']}:{port}"
            target = f"pod/{pod['metadata']['name']}"
            local = stack.enter_context(forwarded(kube, target, port, pair.namespace))
            return f"http://127.0.0.1:{local}"

        yield Engines(
            prefiller=url(prefiller, ports.HTTP),
            decoder=url(decoder, ports.HTTP),
            bootstrap=url(prefiller, ports.BOOTSTRAP),
            bootstrap_for_decoder=f"http://{address}:{ports.BOOTSTRAP}",
            model="tiny",
            max_model_len=2048,
        )
