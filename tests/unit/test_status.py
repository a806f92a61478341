"""Conditions of what runs, counts, and the status as a whole."""

from typing import Any

import pytest

from pd_operator import kinds
from pd_operator.api.status import PDDeploymentStatus
from pd_operator.autoscale.decision import Reason
from pd_operator.errors import ApiError
from pd_operator.observe import Ref
from pd_operator.outcome import Failed, Outcome
from pd_operator.status import compose, conditions
from pd_operator.traffic import Outlook
from pd_shared import labels
from tests.made import everything, others, pod, snapshot, tiers, waiting, wanted
from tests.status_facts import AUTO, DESIRED, NOW, condition, decision, facts, told, traffic


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
    assert kinds == set(conditions.ORDER) - {"ModelReady", "KVStoreReady", "RDMAReady", "SLOMet"}
    store = {"mooncake": {"store": {"enabled": True, "segmentSize": "64Mi"}}}
    kinds = {c["type"] for c in compose.status(facts(spec={**AUTO, **store}), NOW)["conditions"]}
    assert kinds == set(conditions.ORDER) - {"ModelReady", "RDMAReady"}


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


STANDALONE = {"mooncake": {"store": {"enabled": True, "mode": "Standalone"}}}
LMCACHE_SERVER = {"kvTransfer": {"connector": "LMCacheMP", "protocol": "tcp"}}


@pytest.mark.parametrize(
    ("spec", "starting", "word"),
    [
        (STANDALONE, "tiny-mooncake", "Mooncake master"),
        (STANDALONE, "tiny-store", "store pods"),
        (LMCACHE_SERVER, "tiny-lmcache", "LMCache server"),
    ],
)
def test_all_that_holds_shared_kv_is_judged(spec: dict[str, Any], starting: str, word: str) -> None:
    children = everything(wanted(spec))
    assert told("KVStoreReady", facts(snapshot(children), spec=spec)) == ("True", "AllReady")
    for child in children:
        if child["kind"] == "Deployment" and child["metadata"]["name"] == starting:
            child["status"]["readyReplicas"] = 0
    seen = facts(snapshot(children), spec=spec)
    assert told("KVStoreReady", seen) == ("False", "Starting")
    assert word in condition("KVStoreReady", seen)["message"]


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
