"""Pod overrides at the API server: bounded where it can see, else left to the operator."""

from typing import Any

import pytest

from tests.api.conftest import Submit
from tests.api.test_refused import case_id, changed

pytestmark = pytest.mark.cluster

PATCH = "spec.prefill.podOverrides"
CASES: list[tuple[str, Any, tuple[str, ...]]] = [
    (PATCH, {"kind": "Pod"}, (f'unknown field "{PATCH}.kind"',)),
    (f"{PATCH}.spec", [], (f"{PATCH}.spec", "must be of type object")),
    (f"{PATCH}.spec", {f"k{i}": 1 for i in range(33)}, (f"{PATCH}.spec", "at most 32")),
    (f"{PATCH}.metadata.name", "x", (f'unknown field "{PATCH}.metadata.name"',)),
    (f"{PATCH}.metadata.labels", {"a": 1}, (f"{PATCH}.metadata.labels.a", "type string")),
    (f"{PATCH}.metadata.labels", {"a": "x" * 64}, (f"{PATCH}.metadata.labels.a", "than 63")),
]


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_refused(submit: Submit, case: tuple[str, Any, tuple[str, ...]]) -> None:
    path, value, expected = case
    message = submit(changed(path, value))
    assert message, "accepted"
    assert [part for part in expected if part not in message] == [], message


def test_fields_of_a_pod_are_accepted(submit: Submit) -> None:
    patch = {"spec": {"dnsPolicy": "Default", "containers": [{"name": "engine", "env": []}]}}
    assert submit(changed(PATCH, patch)) == ""
