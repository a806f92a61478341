"""vLLM itself does what the simulated engine is checked for: see tests/conformance."""

import os
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from demo.forward import forwarded
from pd_shared import labels, ports
from tests.conformance.checks import CHECKS
from tests.conformance.pair import Pair as Engines
from tests.e2e.conftest import Pair
from tests.e2e.deploy import pods
from tests.kube import Kube

pytestmark = [pytest.mark.cluster, pytest.mark.engine]


@pytest.fixture(scope="session")
def engines(kube: Kube, pair: Pair) -> Iterator[Engines]:
    """The engines of the pair, asked without the proxy."""
    (prefiller,) = pods(kube, pair.name, pair.namespace, labels.PREFILLER)
    (decoder,) = pods(kube, pair.name, pair.namespace, labels.DECODER)
    address = prefiller["status"]["podIP"]
    with ExitStack() as stack:

        def url(pod: dict[str, dict[str, str]], port: int) -> str:
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


@pytest.mark.parametrize("name", CHECKS)
def test_conformance(engines: Engines, name: str) -> None:
    CHECKS[name](engines)
