"""Which transitions become Events."""

from datetime import UTC, datetime
from typing import Any

from pd_operator import events, kinds
from pd_operator.autoscale.decision import Limit, Reason, TierDecision
from pd_operator.observe import Manifest
from pd_operator.outcome import Outcome
from pd_operator.plan import Replicas
from pd_operator.status import notices
from pd_operator.status.facts import Facts
from pd_operator.status.notices import Notice
from pd_operator.traffic import Outlook
from tests.made import OWNER, deployment, everything, snapshot, tiers, wanted

DESIRED = wanted()
UNKNOWN = Outlook()


def status(*conditions: tuple[str, str, str], time: str = "t1", message: str = "m") -> Manifest:
    return {
        "conditions": [
            {
                "type": kind,
                "status": state,
                "reason": reason,
                "message": message,
                "lastTransitionTime": time,
                "observedGeneration": 1,
            }
            for kind, state, reason in conditions
        ]
    }


def told(before: Manifest, after: Manifest) -> list[tuple[str, str]]:
    return [(n.type, n.reason) for n in notices.transitions(before, after)]


def test_a_new_reason_for_not_being_right_is_told() -> None:
    failing = status(("DecodeReady", "False", "CrashLoopBackOff"))
    assert told({}, failing) == [("Warning", "CrashLoopBackOff")]
    assert told(status(("DecodeReady", "True", "AllReady")), failing) == [
        ("Warning", "CrashLoopBackOff")
    ]


def test_a_state_is_told_once() -> None:
    failing = status(("DecodeReady", "False", "CrashLoopBackOff"))
    other_words = status(("DecodeReady", "False", "CrashLoopBackOff"), message="other")
    assert told(failing, other_words) == []


def test_what_only_takes_time_is_not_told() -> None:
    starting = status(("DecodeReady", "False", "Starting"), ("Ready", "False", "Starting"))
    assert told({}, starting) == []


def test_turning_ready_is_told() -> None:
    assert told({}, status(("Ready", "True", "Ready"))) == [("Normal", "Ready")]
    before = status(("Ready", "False", "Starting"))
    assert told(before, status(("Ready", "True", "Ready"))) == [("Normal", "Ready")]


def test_kv_is_told_both_ways() -> None:
    unknown = status(("KVTransferVerified", "Unknown", "NoTrafficYet"))
    moves = status(("KVTransferVerified", "True", "KVMoves"))
    stands = status(("KVTransferVerified", "False", "KVNotMoving"))
    assert told({}, unknown) == []
    assert told(unknown, stands) == [("Warning", "KVNotMoving")]
    assert told(stands, moves) == [("Normal", "KVTransferVerified")]


def test_a_condition_and_its_summary_are_told_once() -> None:
    failing = status(("Valid", "False", "BadArgs"), ("Ready", "False", "BadArgs"))
    assert told({}, failing) == [("Warning", "BadArgs")]
    taken = status(("Ready", "False", "NameConflict"))
    assert told({}, taken) == [("Warning", "NameConflict")]


def test_another_invalid_spec_is_told_again() -> None:
    first = status(("Valid", "False", "BadArgs"), message="a")
    second = status(("Valid", "False", "BadArgs"), message="b")
    assert told(first, second) == [("Warning", "BadArgs")]


def test_a_transition_has_the_same_id_until_it_is_written() -> None:
    before, after = status(("Ready", "False", "x")), status(("Ready", "True", "Ready"), time="t2")
    (first,) = notices.transitions(before, after)
    (again,) = notices.transitions(before, status(("Ready", "True", "Ready"), time="t3"))
    assert first == again
    (next_time,) = notices.transitions(status(("Ready", "False", "x"), time="t4"), after)
    assert next_time.id != first.id


def facts(outcome: Outcome, outlook: Outlook = UNKNOWN, **more: Any) -> Facts:
    made = {"deployment": deployment(), "replicas": Replicas(1, 2), **more}
    return Facts(
        desired=DESIRED,
        snapshot=snapshot(everything(DESIRED)),
        outcome=outcome,
        outlook=outlook,
        url="",
        **made,
    )


def test_created_children_are_told_together() -> None:
    created = tuple(tiers(DESIRED))
    (notice,) = notices.writes(facts(Outcome(created=created)), snapshot([]))
    assert notice.reason == "Created"
    assert DESIRED.prefiller.name in notice.message
    turned = Outcome(created=tuple(reversed(created)))
    assert notices.writes(facts(turned), snapshot([])) == (notice,)
    other = tiers(DESIRED)
    other[0]["metadata"]["uid"] = "made again"
    (again,) = notices.writes(facts(Outcome(created=tuple(other))), snapshot([]))
    assert again.id != notice.id


def test_scaling_is_told_with_its_reason() -> None:
    before = snapshot(tiers(DESIRED))
    changed = Outcome(changed=(tiers(DESIRED)[1],))
    (notice,) = notices.writes(facts(changed), before)
    assert (notice.reason, notice.message) == ("Scaled", "decoders 1 -> 2: as the spec says")
    decision = TierDecision(1, 2, 2, Reason.TPOT_ABOVE_TARGET, Limit.NONE, "p95 60 ms")
    auto = deployment({"autoscaling": {"mode": "Auto", "slo": {"tpot": "50ms"}}})
    (notice,) = notices.writes(facts(changed, Outlook(decode=decision), deployment=auto), before)
    assert notice.message == "decoders 1 -> 2: TPOTAboveTarget: p95 60 ms"


def test_a_stateful_set_changed_for_another_reason_is_not_scaled() -> None:
    changed = Outcome(changed=(tiers(DESIRED)[1],))
    told = notices.writes(facts(changed, replicas=Replicas(1, 1)), snapshot(tiers(DESIRED)))
    assert told == ()


def test_a_rollout_is_told_when_it_begins() -> None:
    older = {"decode": {"revision": "00000000"}, "observedGeneration": 1}
    (notice,) = notices.writes(
        facts(Outcome(), deployment=deployment(status=older)), snapshot(tiers(DESIRED))
    )
    assert notice.reason == "RollingOut"
    assert "00000000 is replaced by" in notice.message


def test_an_event_is_one_that_kubectl_describe_shows() -> None:
    notice = Notice("Warning", "KVNotMoving", "é" * 2000, "id")
    made = events.event(OWNER, notice, datetime(2026, 1, 1, tzinfo=UTC), "pod-1")
    assert made["involvedObject"]["uid"] == OWNER.uid
    assert made["involvedObject"]["kind"] == kinds.PD_DEPLOYMENT.name
    assert len(made["message"].encode()) <= 1024
    assert made["lastTimestamp"] == "2026-01-01T00:00:00Z"
    assert made["metadata"]["name"].startswith("tiny.")
