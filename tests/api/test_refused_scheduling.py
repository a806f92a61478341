"""What the API server refuses of placement, spreading, classes and pull secrets."""

from typing import Any

import pytest

from tests.api.conftest import Submit
from tests.api.test_refused import VALID, case_id, changed

pytestmark = pytest.mark.cluster

SPREAD = "spec.decode.topologySpread"
CASES: list[tuple[str, Any, tuple[str, ...]]] = [
    (SPREAD, [{}], (f"{SPREAD}[0].topologyKey", "Required")),
    (SPREAD, [{"topologyKey": "a b"}], (f"{SPREAD}[0].topologyKey", "should match")),
    (SPREAD, [{"topologyKey": "a", "maxSkew": 0}], (f"{SPREAD}[0].maxSkew", "or equal to 1")),
    (
        SPREAD,
        [{"topologyKey": "a", "whenUnsatisfiable": "Never"}],
        (f"{SPREAD}[0].whenUnsatisfiable", '"ScheduleAnyway", "DoNotSchedule"'),
    ),
    (SPREAD, [{"topologyKey": "a"}] * 9, (SPREAD, "must have at most 8 items")),
    ("spec.prefill.runtimeClassName", "A_b", ("spec.prefill.runtimeClassName", "should match")),
    ("spec.prefill.priorityClassName", "", ("spec.prefill.priorityClassName", "at least 1")),
    ("spec.prefill.shmSize", "8 Gi", ("spec.prefill.shmSize", "should match")),
    ("spec.placement.near.topologyKey", "", ("spec.placement.near.topologyKey", "at least 1")),
    ("spec.placement.near.required", "yes", ("spec.placement.near.required", "type boolean")),
    ("spec.engine.imagePullSecrets", ["A"], ("spec.engine.imagePullSecrets[0]", "should match")),
    ("spec.engine.imagePullSecrets", ["a", "a"], ("spec.engine.imagePullSecrets[1]", "Duplicate")),
]


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_refused(submit: Submit, case: tuple[str, Any, tuple[str, ...]]) -> None:
    path, value, expected = case
    message = submit(changed(path, value))
    assert message, "accepted"
    assert [part for part in expected if part not in message] == [], message


@pytest.mark.parametrize(
    "spec",
    [
        {"placement": {}},
        {"placement": {"near": {}}},
        {"decode": {"topologySpread": [{"topologyKey": "a.example/b"}], "shmSize": "1.5Gi"}},
        {"prefill": {"runtimeClassName": "nvidia", "priorityClassName": "high.serving"}},
    ],
    ids=str,
)
def test_accepted(submit: Submit, spec: dict[str, Any]) -> None:
    assert submit(VALID | {"spec": VALID["spec"] | spec}) == ""
