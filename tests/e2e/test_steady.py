"""In steady state the operator writes nothing, by the API server's own account."""

import pytest

from tests.conftest import RELEASE
from tests.e2e import audit
from tests.e2e.conftest import Pair
from tests.kube import Kube, until

pytestmark = [pytest.mark.cluster, pytest.mark.engine, pytest.mark.untouched]

_RESYNC = 30
"""Seconds: the tests' values for the chart say so."""


def _user(kube: Kube, namespace: str) -> str:
    deployment = kube.get("deployment", RELEASE, namespace)
    account = deployment["spec"]["template"]["spec"]["serviceAccountName"]
    return f"system:serviceaccount:{namespace}:{account}"


def test_the_audit_log_shows_a_write(kube: Kube, operator: str, pair: Pair) -> None:
    """The measure can fail: a child that comes back is a write in the log."""
    user = _user(kube, operator)
    start = audit.end()
    service = f"{pair.name}-prefiller"
    kube.kubectl("delete", "service", service, "-n", pair.namespace)
    until(lambda: kube.find("service", service, pair.namespace), 30, "the Service anew")
    until(
        lambda: any(w.resource == "services" for w in audit.writes(user, start)),
        15,
        "a write in the audit log",
    )


def test_steady_state_writes_nothing(kube: Kube, operator: str, pair: Pair) -> None:
    """Over more than one resync and many scaling intervals."""
    user = _user(kube, operator)
    kube.wait_ready(pair.name, pair.namespace)
    assert audit.wait_quiet(user, _RESYNC + 5, 3 * _RESYNC), audit.writes(user, 0)[-5:]
