"""vLLM itself does what the simulated engine is checked for: see tests/conformance."""

import pytest

from tests.conformance.checks import CHECKS
from tests.conformance.pair import Pair as Engines

pytestmark = [pytest.mark.cluster, pytest.mark.engine]


@pytest.mark.parametrize("name", CHECKS)
def test_conformance(engines: Engines, name: str) -> None:
    CHECKS[name](engines)
