"""What the API server refuses of spec.proxy.routing."""

from typing import Any

import pytest

from tests.api.conftest import Submit
from tests.specs import at, merged

pytestmark = pytest.mark.cluster

BASE: dict[str, Any] = {
    "apiVersion": "pd-operator.io/v1alpha1",
    "kind": "PDDeployment",
    "metadata": {"name": "ok"},
    "spec": {"model": {"id": "org/model"}, "engine": {"image": "registry.example/vllm:1"}},
}
CASES: list[tuple[dict[str, Any], tuple[str, ...]]] = [
    (at("proxy.routing.prefixAware", "yes"), ("spec.proxy.routing.prefixAware", "boolean")),
    (at("proxy.routing.sessionHeader", ""), ("spec.proxy.routing.sessionHeader", "at least 1")),
    (
        at("proxy.routing.sessionHeader", "a b"),
        ("spec.proxy.routing.sessionHeader", "should match"),
    ),
    (at("proxy.routing.sessionHeader", "x" * 65), ("spec.proxy.routing.sessionHeader", "64")),
    (at("proxy.routing.localPrefill.enabled", 1),
     ("spec.proxy.routing.localPrefill.enabled", "boolean")),
    (at("proxy.routing.localPrefill.maxTokens", 0),
     ("spec.proxy.routing.localPrefill.maxTokens", "greater than or equal to 1")),
    (at("proxy.routing.localPrefill.maxTokens", 1_000_001),
     ("spec.proxy.routing.localPrefill.maxTokens", "less than or equal to 1000000")),
    (at("proxy.routing.policy", "random"), ("spec.proxy.routing.policy",)),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "expected"), CASES, ids=lambda value: str(value)[:80])
def test_refused(submit: Submit, changes: dict[str, Any], expected: tuple[str, ...]) -> None:
    message = submit(merged(BASE, {"spec": changes}))
    assert message, "accepted"
    assert [part for part in expected if part not in message] == [], message
