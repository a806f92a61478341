"""What the API server refuses of `parallelism`."""

from typing import Any

import pytest

from tests.api.conftest import Submit
from tests.api.test_refused import VALID, changed

pytestmark = pytest.mark.cluster

P = "spec.decode.parallelism"
CPU = VALID["spec"] | {
    "engine": {"image": "registry.example/vllm:1", "device": "cpu"},
    "kvTransfer": {"protocol": "tcp"},
}
CASES: list[tuple[str, Any, tuple[str, ...]]] = [
    (f"{P}.pipeline", 0, (f"{P}.pipeline", "greater than or equal to 1")),
    (f"{P}.pipeline", 65, (f"{P}.pipeline", "less than or equal to 64")),
    (f"{P}.data", 513, (f"{P}.data", "less than or equal to 512")),
    (f"{P}.nodes", 65, (f"{P}.nodes", "less than or equal to 64")),
    (f"{P}.nodes", 2, ("nodes must divide data, or tensor x pipeline",)),
    (P, {"tensor": 4, "data": 2, "nodes": 4}, ("nodes must divide data",)),
    (
        "spec.placement.gang",
        {"scheduler": "YuniKorn"},
        ("spec.placement.gang.scheduler", "Unsupported value"),
    ),
    ("spec.placement.gang", {"scheduler": "Kueue"}, ("gang.queue must name a LocalQueue",)),
    (
        "spec.placement.gang",
        {"scheduler": "Coscheduling", "queue": "q"},
        ("gang.queue is not allowed where gang.scheduler is Coscheduling",),
    ),
    (
        "spec.placement.gang",
        {"scheduler": "Volcano", "schedulerName": "own"},
        ("gang.schedulerName is only allowed where gang.scheduler is Coscheduling",),
    ),
    (
        "spec",
        VALID["spec"]
        | {
            "placement": {"gang": {"scheduler": "Kueue", "queue": "q"}},
            "autoscaling": {"mode": "Auto", "slo": {"ttft": "1s"}},
        },
        ("autoscaling.mode must not be Auto",),
    ),
    (f"{P}.expert", True, (f"{P}.expert", "must be of type object")),
    (f"{P}.expert.enabled", True, ("tensor x data must be more than 1",)),
    (f"{P}.expert.all2allBackend", "pplx", (f"{P}.expert.all2allBackend", "Unsupported value")),
    (f"{P}.expert.all2allBackend", "nixl_ep", ("expert.enabled must be true",)),
    (f"{P}.expert.dbo", {"enabled": True}, ("expert.enabled must be true",)),
    (f"{P}.expert.eplb", {"enabled": True}, ("expert.enabled must be true",)),
    (
        P,
        {"data": 2, "expert": {"enabled": True, "dbo": {"enabled": True}}},
        ("expert.all2allBackend must be deepep_low_latency",),
    ),
    (f"{P}.expert.dbo.decodeTokenThreshold", 1, ("greater than or equal to 2",)),
    (f"{P}.expert.eplb.windowSize", 0, ("greater than or equal to 1",)),
    (f"{P}.expert.eplb.numRedundantExperts", -1, ("greater than or equal to 0",)),
    (
        "spec",
        CPU | {"prefill": {"parallelism": {"pipeline": 2}}},
        ("prefill.parallelism.pipeline", "not allowed where engine.device is cpu"),
    ),
    (
        "spec",
        CPU | {"decode": {"parallelism": {"tensor": 2, "expert": {"enabled": True}}}},
        ("decode.parallelism.expert.enabled", "not allowed where engine.device is cpu"),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}={case[1]}"[:60])
def test_refused(submit: Submit, case: tuple[str, Any, tuple[str, ...]]) -> None:
    path, value, expected = case
    message = submit(changed(path, value))
    assert message, "accepted"
    assert [part for part in expected if part not in message] == [], message


@pytest.mark.parametrize(
    "parallelism",
    [
        {"tensor": 8, "pipeline": 2, "data": 4},
        {"tensor": 2, "expert": {"enabled": True}},
        {"tensor": 4, "pipeline": 2, "nodes": 4},
        {"data": 6, "nodes": 3},
        {"data": 2, "expert": {"enabled": True, "all2allBackend": "nixl_ep",
                               "dbo": {"enabled": True, "prefillTokenThreshold": 64}}},
        {"expert": {"eplb": {"windowSize": 7}}},
    ],
    ids=str,
)  # fmt: skip
def test_accepted(submit: Submit, parallelism: dict[str, Any]) -> None:
    assert submit(changed(P, parallelism)) == ""
