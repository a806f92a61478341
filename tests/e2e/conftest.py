"""Fixtures of the end-to-end tests: one prefill/decode pair that many tests may use."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.e2e.deploy import reached, tiny
from tests.kube import Kube, until


@dataclass(frozen=True)
class Pair:
    """A running deployment: nobody may change it."""

    name: str
    namespace: str
    url: str


@pytest.fixture(scope="session")
def pair(kube: Kube, images: dict[str, str], operator: str) -> Iterator[Pair]:
    """The example tiny-cpu, Ready; for tests that only look at it and send requests."""
    namespace = "t-pair"
    kube.kubectl("create", "namespace", namespace)
    until(lambda: kube.find("serviceaccount", "default", namespace), 30, "ServiceAccount")
    kube.apply(tiny(images), namespace)
    kube.wait_ready("tiny", namespace)
    with reached(kube, "tiny", namespace) as url:
        yield Pair("tiny", namespace, url)
    kube.kubectl("delete", "pdd", "--all", "-n", namespace)
    kube.kubectl("delete", "namespace", namespace, "--wait=false")
