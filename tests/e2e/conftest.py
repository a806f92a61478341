"""Fixtures of the end-to-end tests: one prefill/decode pair that many tests may use."""

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests import shared
from tests.e2e.deploy import reached, tiny
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
