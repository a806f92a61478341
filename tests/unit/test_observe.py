"""What counts as a child, and what its status says."""

from typing import Any

import pytest

from pd_operator import kinds
from pd_operator.observe import Manifest, Ownership, ownership
from pd_shared import labels
from tests.made import NAME, OWNER, everything, live, pod, snapshot, tiers, wanted

DESIRED = wanted()
PREFILLERS, DECODERS = tiers(DESIRED)


def owned(*references: Manifest, **own: str) -> Manifest:
    return {"metadata": {"name": "x", "labels": own, "ownerReferences": list(references)}}


def reference(**changed: Any) -> Manifest:
    found = dict(PREFILLERS["metadata"]["ownerReferences"][0])
    return {**found, **changed}


OURS = {labels.K8S_MANAGED_BY: labels.MANAGED_BY, labels.DEPLOYMENT: NAME}


@pytest.mark.parametrize(
    ("manifest", "expected"),
    [
        (owned(reference()), Ownership.OURS),
        (owned(reference(controller=False), **OURS), Ownership.ORPHAN),
        (owned(**OURS), Ownership.ORPHAN),
        (owned(), Ownership.FOREIGN),
        (owned(**{labels.DEPLOYMENT: NAME}), Ownership.FOREIGN),
        (owned(**{**OURS, labels.DEPLOYMENT: "other"}), Ownership.FOREIGN),
        (owned(reference(uid="older"), **OURS), Ownership.PREVIOUS),
        (owned(reference(uid="u", name="other"), **OURS), Ownership.FOREIGN),
        (owned(reference(uid="u", kind="Deployment"), **OURS), Ownership.FOREIGN),
        (owned(reference(uid="u", apiVersion="apps/v1"), **OURS), Ownership.FOREIGN),
    ],
)
def test_ownership(manifest: Manifest, expected: Ownership) -> None:
    assert ownership(manifest, OWNER) is expected


def test_only_own_workloads_are_seen_as_tiers() -> None:
    foreign = live(PREFILLERS)
    foreign["metadata"]["name"] = "foreign"
    foreign["metadata"]["ownerReferences"][0]["uid"] = "somebody"
    seen = snapshot([PREFILLERS, DECODERS, foreign])
    assert {s.name for s in seen.stateful_sets} == {DESIRED.prefiller.name, DESIRED.decoder.name}
    # It still holds the name.
    assert ("StatefulSet", "foreign") in seen.children


def test_a_stateful_set_is_read() -> None:
    (found,) = snapshot([live(PREFILLERS, ready=0)]).tier(labels.PREFILLER)
    assert (found.replicas, found.pods, found.ready, found.complete) == (1, 1, 0, False)
    assert (found.revision, found.pairing) == (DESIRED.prefiller.revision, DESIRED.pairing)
    assert snapshot([PREFILLERS]).stateful_sets[0].complete


def test_ready_pods_of_an_unseen_generation_do_not_count() -> None:
    older = live(PREFILLERS)
    older["metadata"]["generation"] = 2
    assert not snapshot([older]).stateful_sets[0].complete


def test_the_newest_revision_of_a_tier_comes_first() -> None:
    new = live(PREFILLERS, creationTimestamp="2026-02-01T00:00:00Z", name="new")
    assert [s.name for s in snapshot([PREFILLERS, new]).tier(labels.PREFILLER)] == [
        "new",
        DESIRED.prefiller.name,
    ]


def test_pods_count_by_their_owner_not_by_their_label() -> None:
    mine = pod(PREFILLERS)
    stray = pod(PREFILLERS, 1)
    stray["metadata"]["ownerReferences"][0]["uid"] = "somebody"
    naked = pod(PREFILLERS, 2)
    naked["metadata"]["ownerReferences"] = []
    seen = snapshot([PREFILLERS], [mine, stray, naked])
    assert [p.name for p in seen.pods] == [mine["metadata"]["name"]]


def test_a_proxy_pod_is_found_through_its_replica_set() -> None:
    children = everything(DESIRED)
    proxy = next(m for m in children if m["kind"] == "Deployment")
    pods = [pod(proxy, kind="ReplicaSet", podIP="10.0.0.1")]
    other = pod(proxy, 1, kind="ReplicaSet")
    other["metadata"]["ownerReferences"][0]["name"] = "tiny-proxy-of-somebody-5c9f"
    (found,) = snapshot(children, [*pods, other]).pods_of(labels.PROXY)
    assert found.ip == "10.0.0.1"


def event(uid: str, message: str, time: str, reason: str = "FailedCreate") -> Manifest:
    return {
        "involvedObject": {"uid": uid},
        "reason": reason,
        "message": message,
        "lastTimestamp": time,
    }


def test_the_latest_complaint_of_a_stateful_set_without_pods_is_told() -> None:
    lacking = live(PREFILLERS)
    lacking["status"]["replicas"] = 0
    uid = lacking["metadata"]["uid"]
    events = [
        event(uid, "quota", "2026-01-01T00:00:02Z"),
        event(uid, "older", "2026-01-01T00:00:01Z"),
        event(uid, "pod made", "2026-01-01T00:00:03Z", reason="SuccessfulCreate"),
        event("other", "not ours", "2026-01-01T00:00:04Z"),
    ]
    assert snapshot([lacking], events=events).complaints == {DESIRED.prefiller.name: "quota"}


def test_a_complaint_outlived_by_its_pods_is_not_told() -> None:
    events = [event(PREFILLERS["metadata"]["uid"], "quota", "2026-01-01T00:00:02Z")]
    assert snapshot([PREFILLERS], events=events).complaints == {}


def test_a_deployment_tells_why_it_cannot_make_pods() -> None:
    proxy = next(m for m in everything(DESIRED) if m["kind"] == "Deployment")
    proxy["status"]["conditions"] = [
        {"type": "ReplicaFailure", "status": "True", "message": "violates PodSecurity"}
    ]
    assert snapshot([proxy]).deployments[0].problem == "violates PodSecurity"


def test_a_deployment_of_an_older_template_is_not_complete() -> None:
    proxy = next(m for m in everything(DESIRED) if m["kind"] == "Deployment")
    assert snapshot([proxy]).deployments[0].complete
    proxy["status"]["updatedReplicas"] = 0
    assert not snapshot([proxy]).deployments[0].complete


def test_every_kind_of_child_is_known() -> None:
    kinds_built = {
        m["kind"]
        for m in everything(
            wanted({"model": {"id": "a", "source": {"huggingFace": {"cache": {"claimName": "c"}}}}})
        )
    }
    assert kinds_built == {kind.name for kind in kinds.CHILDREN}


def test_a_group_counts_when_all_its_pods_are_ready() -> None:
    desired = wanted({"decode": {"parallelism": {"data": 2, "nodes": 2}}})
    decoders = live(tiers(desired, replicas=3)[1], ready=5)
    assert decoders["spec"]["replicas"] == 6

    def seen(*ready: int, leaving: int | None = None) -> tuple[int, int, int]:
        pods = [
            pod(decoders, number, conditions=[
                {"type": "Ready", "status": "True" if number in ready else "False"}
            ])
            for number in range(6)
        ]  # fmt: skip
        if leaving is not None:
            pods[leaving]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        found = snapshot([decoders], pods)
        (view,) = found.tier(labels.DECODER)
        assert found.ready(labels.DECODER) == view.ready
        return view.replicas, view.pods, view.ready

    assert seen(0, 1, 2, 3, 4, 5) == (3, 3, 3)
    assert seen(0, 1, 2, 4) == (3, 3, 1)
    assert seen(1, 2, 3, 4) == (3, 3, 1)
    assert seen(0, 1, 2, 3, 4, 5, leaving=3) == (3, 3, 2)
