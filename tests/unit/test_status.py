"""Conditions, counts and texts of the status."""

from typing import Any

import pytest

from pd_operator import kinds
from pd_operator.api.status import PDDeploymentStatus
from pd_operator.autoscale.decision import Limit, Reason, TierDecision
from pd_operator.errors import ApiError
from pd_operator.observe import Manifest, Ref, Snapshot
from pd_operator.outcome import Failed, Outcome
from pd_operator.plan import Replicas
from pd_operator.status import compose, conditions
from pd_operator.status.facts import Facts
from pd_operator.traffic import Outlook, TrafficView
from pd_shared import labels
from tests.made import deployment, everything, others, pod, snapshot, tiers, waiting, wanted

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


def test_all_is_ready() -> None:
    seen = facts()
    assert told("Ready", seen) == ("True", "Ready")
    assert told("Progressing", seen) == ("False", "Complete")
    for kind in ("PrefillReady", "DecodeReady", "ProxyReady"):
        assert told(kind, seen) == ("True", "AllReady")
    assert "http://u/v1" in condition("Ready", seen)["message"]


def test_every_condition_is_of_the_generation_seen() -> None:
    written = compose.status(facts(spec=AUTO), NOW)
    assert {c["observedGeneration"] for c in written["conditions"]} == {3}
    assert written["observedGeneration"] == 3


def test_conditions_that_do_not_apply_are_absent() -> None:
    kinds = {c["type"] for c in compose.status(facts(), NOW)["conditions"]}
    assert kinds == set(conditions.ORDER) - {"KVStoreReady", "SLOMet"}
    store = {"mooncake": {"store": {"enabled": True, "segmentSize": "64Mi"}}}
    kinds = {c["type"] for c in compose.status(facts(spec={**AUTO, **store}), NOW)["conditions"]}
    assert kinds == set(conditions.ORDER)


def test_a_start_is_told_with_counts() -> None:
    starting = snapshot([*others(DESIRED), *tiers(DESIRED, ready=0)])
    seen = facts(starting)
    assert told("Ready", seen) == ("False", "Starting")
    assert told("Progressing", seen) == ("True", "Starting")
    assert condition("PrefillReady", seen)["message"] == "0 of 1 prefillers ready"


def test_a_pod_that_fails_is_told_everywhere() -> None:
    sets = tiers(DESIRED, ready=0)
    failing = pod(sets[1], containerStatuses=[waiting("ImagePullBackOff")])
    seen = facts(snapshot([*others(DESIRED), *sets], [failing]))
    assert told("DecodeReady", seen) == ("False", "ImagePullBackOff")
    assert told("Progressing", seen) == ("False", "ImagePullBackOff")
    message = condition("DecodeReady", seen)["message"]
    assert failing["metadata"]["name"] in message
    assert "engine:1" in message
    # The first that is not right is the prefiller, which only starts.
    assert told("Ready", seen) == ("False", "Starting")


def test_pods_that_cannot_be_made_are_told() -> None:
    sets = tiers(DESIRED, ready=0)
    sets[0]["status"]["replicas"] = 0
    event = {
        "involvedObject": {"uid": sets[0]["metadata"]["uid"]},
        "reason": "FailedCreate",
        "message": "violates PodSecurity",
    }
    seen = facts(snapshot([*others(DESIRED), *sets], events=[event]))
    assert told("Ready", seen) == ("False", "FailedCreate")
    assert "violates PodSecurity" in condition("Ready", seen)["message"]


def test_a_failing_pod_of_an_old_revision_is_no_news() -> None:
    old = wanted({"engine": {"image": "engine:0", "device": "cpu"}})
    sets = tiers(old, ready=0)
    failing = pod(sets[0], containerStatuses=[waiting("ImagePullBackOff")])
    seen = facts(snapshot([*everything(DESIRED), *sets], [failing]))
    assert told("PrefillReady", seen) == ("True", "AllReady")
    assert told("Progressing", seen) == ("True", "RollingOut")
    assert told("Ready", seen) == ("False", "RollingOut")


def test_the_proxy_and_the_store_are_judged() -> None:
    store = {"mooncake": {"store": {"enabled": True, "segmentSize": "64Mi"}}}
    children = everything(wanted(store))
    for child in children:
        if child["kind"] == "Deployment":
            child["status"]["readyReplicas"] = 0
    seen = facts(snapshot(children), spec=store)
    assert told("ProxyReady", seen) == ("False", "Starting")
    assert told("KVStoreReady", seen) == ("False", "Starting")
    absent = facts(snapshot(tiers(wanted(store))), spec=store)
    assert told("KVStoreReady", absent) == ("False", "NotCreated")


SERVICE = Ref(kinds.SERVICE, "tiny-proxy")


@pytest.mark.parametrize(
    ("outcome", "reason", "progress"),
    [
        (Outcome(conflicts=(SERVICE,)), "NameConflict", "False"),
        (
            Outcome(failed=(Failed(SERVICE, ApiError(422, "Invalid", "bad port")),)),
            "ApplyFailed",
            "False",
        ),
        (Outcome(waiting=(SERVICE,)), "WaitingForDeletion", "True"),
    ],
)
def test_what_cannot_be_written_is_told_by_name(
    outcome: Outcome, reason: str, progress: str
) -> None:
    seen = facts(outcome=outcome)
    assert told("Ready", seen) == ("False", reason)
    assert told("Progressing", seen) == (progress, reason)
    assert "Service tiny-proxy" in condition("Ready", seen)["message"]


def test_a_stale_view_is_no_error() -> None:
    failed = Failed(SERVICE, ApiError(409, "Conflict", "modified"))
    assert told("Ready", facts(outcome=Outcome(failed=(failed,)))) == ("True", "Ready")


def traffic(
    expected: float, moved: float, settled: tuple[float, float] | None = None, **more: Any
) -> Outlook:
    view = TrafficView(
        kv_expected=expected,
        kv_moved=moved,
        kv_settled_expected=expected if settled is None else settled[0],
        kv_settled_moved=moved if settled is None else settled[1],
        **{"fresh": True, "requests": 5, **more},
    )
    return Outlook(traffic=view)


@pytest.mark.parametrize(
    ("outlook", "status", "reason"),
    [
        (Outlook(), "Unknown", "NoTrafficYet"),
        (traffic(0, 0), "Unknown", "NoTrafficYet"),
        (traffic(100, 100, fresh=False), "Unknown", "NoTrafficYet"),
        (traffic(100, 90), "True", "KVMoves"),
        (traffic(100, 89), "False", "KVNotMoving"),
        (traffic(100, 0), "False", "KVNotMoving"),
        # The newest requests are counted before their tokens are.
        (traffic(100, 50, settled=(50, 50)), "True", "KVMoves"),
        (traffic(100, 50, settled=(0, 0)), "Unknown", "NoTrafficYet"),
        (traffic(100, 50, settled=(50, 20)), "False", "KVNotMoving"),
    ],
)
def test_kv_transfer_is_verified_by_what_moved(outlook: Outlook, status: str, reason: str) -> None:
    assert told("KVTransferVerified", facts(outlook=outlook)) == (status, reason)


def test_kv_that_does_not_move_makes_the_whole_not_ready() -> None:
    seen = facts(outlook=traffic(143, 0))
    assert told("Ready", seen) == ("False", "KVNotMoving")
    assert "0 of 143 prompt tokens moved" in condition("Ready", seen)["message"]


def test_without_traffic_the_last_verdict_stands() -> None:
    before = compose.status(facts(outlook=traffic(100, 0)), NOW)
    assert told("KVTransferVerified", facts(status=before)) == ("False", "KVNotMoving")
    healed = facts(status=before, outlook=traffic(100, 100))
    assert told("KVTransferVerified", healed) == ("True", "KVMoves")


def decision(reason: Reason = Reason.STEADY, desired: int = 1, message: str = "m") -> TierDecision:
    return TierDecision(1, desired, desired, reason, Limit.NONE, message)


@pytest.mark.parametrize(
    ("mode", "reason", "expected"),
    [
        ("Off", None, ("False", "Off")),
        ("Auto", None, ("False", "NoMetrics")),
        ("Auto", Reason.NO_METRICS, ("False", "NoMetrics")),
        ("Auto", Reason.STALE_METRICS, ("False", "NoMetrics")),
        ("Auto", Reason.NO_TRAFFIC, ("True", "Scaling")),
        ("Advise", Reason.STEADY, ("False", "AdviseOnly")),
    ],
)
def test_scaling_active(mode: str, reason: Reason | None, expected: tuple[str, str]) -> None:
    spec = {"autoscaling": {"mode": mode, "slo": {"ttft": "1s"}}}
    outlook = Outlook() if reason is None else Outlook(prefill=decision(reason))
    assert told("ScalingActive", facts(spec=spec, outlook=outlook)) == expected


@pytest.mark.parametrize(
    ("ttft", "tpot", "expected"),
    [
        (0.4, 0.04, ("True", "WithinTargets")),
        (0.6, 0.04, ("False", "TTFTAboveTarget")),
        (0.4, 0.06, ("False", "TPOTAboveTarget")),
        (None, None, ("Unknown", "NotMeasured")),
        (None, 0.04, ("True", "WithinTargets")),
    ],
)
def test_slo_met(ttft: float | None, tpot: float | None, expected: tuple[str, str]) -> None:
    outlook = traffic(1, 1, ttft_p95=ttft, tpot_p95=tpot)
    assert told("SLOMet", facts(spec=AUTO, outlook=outlook)) == expected


def test_slo_met_waits_for_traffic_and_keeps_the_last_verdict() -> None:
    assert told("SLOMet", facts(spec=AUTO)) == ("Unknown", "NoTrafficYet")
    missed = facts(spec=AUTO, outlook=traffic(1, 1, ttft_p95=0.6))
    before = compose.status(missed, NOW)
    assert told("SLOMet", facts(spec=AUTO, status=before)) == ("False", "TTFTAboveTarget")


def test_latencies_are_texts_that_outlive_the_traffic() -> None:
    outlook = traffic(1, 1, ttft_p95=0.1234, tpot_p95=0.0123)
    written = compose.status(facts(outlook=outlook), NOW)
    assert written["latency"] == {"ttft": "0.123s", "tpot": "0.0123s"}
    assert compose.status(facts(status=written), NOW)["latency"] == written["latency"]
    assert "latency" not in compose.status(facts(), NOW)


def test_the_time_of_transition_moves_only_on_a_flip() -> None:
    before = compose.status(facts(), NOW)
    later = "2026-01-01T01:00:00Z"
    starting = snapshot([*others(DESIRED), *tiers(DESIRED, ready=0)])
    written = compose.status(facts(starting, status=before), later)
    times = {c["type"]: c["lastTransitionTime"] for c in written["conditions"]}
    assert times["PrefillReady"] == later
    assert times["ProxyReady"] == NOW


def test_counts_are_over_all_revisions() -> None:
    old = wanted({"engine": {"image": "engine:0", "device": "cpu"}})
    seen = facts(snapshot([*everything(DESIRED, ready=0), *tiers(old)]))
    tier = compose.status(seen, NOW)["decode"]
    assert tier == {
        "replicas": 2,
        "readyReplicas": 1,
        "updatedReplicas": 1,
        "desiredReplicas": 1,
        "revision": DESIRED.decoder.revision,
        "selector": f"{labels.DEPLOYMENT}=tiny,{labels.COMPONENT}=decoder",
    }


def test_a_decision_keeps_its_time_and_words_until_it_changes() -> None:
    first = facts(spec=AUTO, outlook=Outlook(decode=decision(message="p95 1")))
    before = compose.status(first, NOW)
    same = facts(spec=AUTO, status=before, outlook=Outlook(decode=decision(message="p95 2")))
    assert compose.status(same, "later")["scaling"] == before["scaling"]
    other = Outlook(decode=decision(Reason.TPOT_ABOVE_TARGET, 2))
    new = compose.status(facts(spec=AUTO, status=before, outlook=other), "later")
    assert new["scaling"]["decode"] == {
        "current": 1,
        "desired": 2,
        "reason": "TPOTAboveTarget",
        "message": "m",
        "time": "later",
    }


def test_the_same_facts_again_are_no_change() -> None:
    seen = facts(spec=AUTO, outlook=traffic(5, 5, ttft_p95=0.1))
    before = compose.status(seen, NOW)
    again = facts(spec=AUTO, status=before, outlook=traffic(5, 5, ttft_p95=0.1))
    assert not compose.changed(before, compose.status(again, "later"))


def test_other_writers_conditions_and_the_order_are_no_change() -> None:
    status = compose.status(facts(), NOW)
    foreign = {"type": "Other", "status": "True"}
    shuffled = {**status, "conditions": [foreign, *reversed(status["conditions"])]}
    assert not compose.changed(shuffled, status)
    assert compose.changed({**status, "url": "x"}, status)
    assert compose.changed({}, status)


def test_a_status_fits_the_schema() -> None:
    outlook = Outlook(traffic(5, 5, ttft_p95=0.1).traffic, decision(), decision())
    PDDeploymentStatus.model_validate(compose.status(facts(spec=AUTO, outlook=outlook), NOW))


def test_an_invalid_spec_changes_valid_and_ready_alone() -> None:
    before = compose.status(facts(), NOW)
    written = compose.invalid_status(before, 4, "BadArgs", "engine.args: no", "later")
    assert written["observedGeneration"] == 4
    found = {c["type"]: c for c in written["conditions"]}
    for kind in ("Ready", "Valid"):
        assert found[kind]["status"] == "False"
        assert found[kind]["reason"] == "BadArgs"
        assert found[kind]["observedGeneration"] == 4
        assert found[kind]["message"].startswith("engine.args: no")
    assert found["DecodeReady"] == next(
        c for c in before["conditions"] if c["type"] == "DecodeReady"
    )
    assert written["decode"] == before["decode"]


def test_an_invalid_spec_from_the_start_has_two_conditions() -> None:
    written = compose.invalid_status({}, 1, "BadArgs", "no", NOW)
    assert {c["type"] for c in written["conditions"]} == {"Ready", "Valid"}


def test_a_condition_that_cannot_be_read_is_as_if_absent() -> None:
    assert conditions.read({"conditions": [{"type": "Ready"}, {"type": "Other"}]}) == {}


def test_the_patch_names_the_incarnation() -> None:
    metadata = {"name": "a", "namespace": "b", "uid": "c", "labels": {}}
    assert compose.patch(metadata, "v", "K", {"url": "x"}) == {
        "apiVersion": "v",
        "kind": "K",
        "metadata": {"name": "a", "namespace": "b", "uid": "c"},
        "status": {"url": "x"},
    }
