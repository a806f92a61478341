"""Facts of one reconcile, and what a status made of them says."""

from typing import Any

from pd_operator.autoscale.decision import Limit, Reason, TierDecision
from pd_operator.autoscale.proof import Proof
from pd_operator.observe import Manifest, Snapshot
from pd_operator.outcome import Outcome
from pd_operator.plan import Replicas
from pd_operator.status import compose
from pd_operator.status.facts import Facts
from pd_operator.traffic import Outlook, TrafficView
from tests.made import deployment, everything, snapshot, wanted

DESIRED = wanted()
NOTHING = Outcome()
UNKNOWN = Outlook()
NOW = "2026-01-01T00:00:10Z"
AUTO = {"autoscaling": {"mode": "Auto", "slo": {"ttft": "500ms", "tpot": "50ms"}}}


def facts(
    seen: Snapshot | None = None,
    *,
    spec: Manifest | None = None,
    status: Manifest | None = None,
    outcome: Outcome = NOTHING,
    outlook: Outlook = UNKNOWN,
) -> Facts:
    children = wanted(spec)
    return Facts(
        deployment=deployment(spec, status, generation=3),
        desired=children,
        snapshot=seen or snapshot(everything(children)),
        replicas=Replicas(1, 1),
        outcome=outcome,
        outlook=outlook,
        url="http://u/v1",
    )


def condition(kind: str, of: Facts) -> dict[str, Any]:
    written = compose.status(of, NOW)
    found: dict[str, Any] = next((c for c in written["conditions"] if c["type"] == kind), {})
    return found


def told(kind: str, of: Facts) -> tuple[str, str]:
    found = condition(kind, of)
    return found["status"], found["reason"]


def traffic(
    expected: float,
    moved: float,
    settled: tuple[float, float] | None = None,
    requests: float = 5,
    lasting: bool = True,
    **more: Any,
) -> Outlook:
    proof = Proof(expected, moved, 0, *(settled or (expected, moved)), requests, lasting)
    view = TrafficView(
        kv_expected=expected,
        kv_moved=moved,
        kv_settled_expected=proof.settled_expected,
        kv_settled_moved=proof.settled_moved,
        kv_moves=proof.moves,
        kv_broken=proof.broken,
        **{"fresh": True, "requests": 5, **more},
    )
    return Outlook(traffic=view)


def decision(reason: Reason = Reason.STEADY, desired: int = 1, message: str = "m") -> TierDecision:
    return TierDecision(1, desired, desired, reason, Limit.NONE, message)
