"""What the API server refuses of the proxy's section."""

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
TIMEOUTS = ("connect", "bootstrap", "prefill", "kvWait", "firstToken", "betweenTokens", "drain")

CASES: list[tuple[str, Any, tuple[str, ...]]] = [
    *((f"timeouts.{field}", "2h", (f"timeouts.{field} must be from 10ms to 1h",))
      for field in TIMEOUTS),
    ("timeouts.connect", "9ms", ("timeouts.connect must be from 10ms to 1h",)),
    ("timeouts.connect", "2", ("spec.proxy.timeouts.connect", "should match")),
    ("timeouts.connect", 2, ("spec.proxy.timeouts.connect", "string")),
    ("timeouts.idle", "2s", ('unknown field "spec.proxy.timeouts.idle"',)),
    ("apiKeys", {}, ("spec.proxy.apiKeys.secretName", "Required")),
    ("apiKeys", {"secretName": "A"}, ("spec.proxy.apiKeys.secretName", "should match")),
    ("apiKeys", {"secretName": "a", "isolateCache": "no"},
     ("spec.proxy.apiKeys.isolateCache", "boolean")),
    ("apiKeys", {"secretName": "a", "keys": ["sk"]}, ('unknown field "spec.proxy.apiKeys.keys"',)),
    ("accessLog", "yes", ("spec.proxy.accessLog", "boolean")),
    ("tls", {}, ("spec.proxy.tls.secretName", "Required")),
    ("tls", {"secretName": ""}, ("spec.proxy.tls.secretName", "at least 1 chars")),
    ("queue.timeout", "9ms", ("queue.timeout must be from 10ms to 1h",)),
    ("queue.timeout", "61m", ("queue.timeout must be from 10ms to 1h",)),
    ("queue.size", -1, ("spec.proxy.queue.size", "greater than or equal to 0")),
    ("queue.size", 65537, ("spec.proxy.queue.size", "less than or equal to 65536")),
    *((f"queue.{field}", value, (f"spec.proxy.queue.{field}", says))
      for field in ("requestsPerDecoder", "requestsPerPrefiller")
      for value, says in ((0, "greater than or equal to 1"), (65537, "less than or equal to"))),
    ("limits.bodySize", "a lot", ("spec.proxy.limits.bodySize", "should match")),
    ("limits.connections", 0, ("spec.proxy.limits.connections", "greater than or equal to 1")),
    ("limits.connections", 65537, ("spec.proxy.limits.connections", "less than or equal to 65536")),
    ("limits.inFlight", 0, ("spec.proxy.limits.inFlight", "greater than or equal to 1")),
    ("limits.inFlight", 65537, ("spec.proxy.limits.inFlight", "less than or equal to 65536")),
]  # fmt: skip


@pytest.mark.parametrize(("field", "value", "says"), CASES, ids=lambda x: str(x)[:40])
def test_refused(submit: Submit, field: str, value: Any, says: tuple[str, ...]) -> None:
    message = submit(merged(BASE, at(f"spec.proxy.{field}", value)))
    for part in says:
        assert part in message


def test_the_bounds_themselves_are_accepted(submit: Submit) -> None:
    proxy = {
        "timeouts": {**dict.fromkeys(TIMEOUTS, "1h"), "connect": "10ms"},
        "limits": {"bodySize": "64Mi", "headerSize": 1024, "connections": 65536, "inFlight": 1},
        "accessLog": True,
        "apiKeys": {"secretName": "a.b", "isolateCache": False},
        "tls": {"secretName": "a" * 253},
        "queue": {"size": 0, "timeout": "1h", "requestsPerDecoder": 1},
    }
    assert submit(merged(BASE, at("spec.proxy", proxy))) == ""
