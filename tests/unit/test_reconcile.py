"""One reconcile: what it writes, what it tells, and what it wants next."""

import pytest

from pd_operator import apply
from pd_operator.autoscale.decision import Limit, Reason, TierDecision
from pd_operator.observe import Manifest
from pd_operator.queue import Again
from pd_operator.traffic import Outlook, TrafficView
from tests.faults.controllers import settle
from tests.faults.server import Id
from tests.faults.world import NAME, NAMESPACE, World


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apply, "_PAUSES", (0.0, 0.0, 0.0))


@pytest.fixture
def world() -> World:
    return World()


def written(world: World, since: int) -> list[tuple[str, str]]:
    return [(verb, kind) for verb, kind, _ in world.server.writes[since:]]


async def test_a_new_one_gets_all_children_a_status_and_an_event(world: World) -> None:
    world.user()
    # Soon again: if no pods come, an Event of the StatefulSet alone tells why.
    assert await world.reconcile() == Again(after=5.0)
    assert len(list(world.server.of("StatefulSet"))) == 2
    assert world.cr["status"]["observedGeneration"] == 1
    assert world.condition("Ready")["reason"] == "Starting"
    assert world.events() == ["Created"]
    assert [verb for verb, _ in written(world, 0)].count("apply_status") == 1


async def test_it_becomes_ready_and_then_rests(world: World) -> None:
    world.user()
    await world.converge()
    assert world.condition("Ready")["status"] == "True"
    assert set(world.events()) == {"Created", "Ready"}
    before = len(world.server.writes)
    world.time = "2027-01-01T00:00:00Z"
    assert await world.reconcile() == Again()
    assert written(world, before) == []


async def test_a_deleted_one_is_left_to_garbage_collection(world: World) -> None:
    world.user()
    await world.converge()
    metadata = {**world.cr["metadata"], "deletionTimestamp": "t"}
    world.server.put({**world.cr, "metadata": metadata})
    # Foreground deletion takes the children first: they must not come back.
    world.server.remove(("Service", NAMESPACE, "tiny-proxy"))
    before = len(world.server.writes)
    assert await world.reconcile() == Again()
    world.delete()
    assert await world.reconcile() == Again()
    assert written(world, before) == []
    assert list(world.server.of("StatefulSet"))
    settle(world.server)
    assert not list(world.server.of("StatefulSet"))


async def test_an_event_that_was_posted_already_is_no_trouble(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.user()
    await world.converge()
    posted = sorted(world.events())
    ready = world.condition("Ready")
    # As if the operator had died between the Event and the status.
    status = world.cr["status"]
    others = [c for c in status["conditions"] if c["type"] != "Ready"]
    before = {**ready, "status": "False", "reason": "Starting"}
    world.server.put({**world.cr, "status": {**status, "conditions": [before, *others]}})
    await world.reconcile()
    world.server.put({**world.cr, "status": {**status, "conditions": [before, *others]}})
    await world.reconcile()
    assert world.condition("Ready")["status"] == "True"
    assert len(world.events()) <= len(posted) + 1
    assert "could not post" not in caplog.text


async def test_an_invalid_spec_leaves_the_children_and_is_told_once(world: World) -> None:
    world.user()
    await world.converge()
    children = world.children()
    world.user(lambda spec: spec["engine"].update(args=["--port=1"]))
    before = len(world.server.writes)
    assert await world.reconcile() == Again()
    assert set(written(world, before)) == {("create", "Event"), ("apply_status", "PDDeployment")}
    assert world.condition("Valid")["status"] == "False"
    assert "engine.args" in world.condition("Valid")["message"]
    assert world.condition("Ready")["status"] == "False"
    key = f"PDDeployment/{NAMESPACE}/{NAME}"
    after = world.children()
    assert {k: v for k, v in after.items() if k != key} == {
        k: v for k, v in children.items() if k != key
    }
    before = len(world.server.writes)
    await world.reconcile()
    assert written(world, before) == []


async def test_a_spec_that_breaks_the_schema_is_invalid_too(world: World) -> None:
    world.user(lambda spec: spec.update(colour="red"))
    assert await world.reconcile() == Again()
    assert world.condition("Valid")["reason"] == "InvalidSpec"
    assert "colour" in world.condition("Valid")["message"]
    assert {identity[0] for identity in world.server.objects} == {"PDDeployment", "Event"}


async def test_a_mended_spec_goes_on(world: World) -> None:
    world.user(lambda spec: spec.update(colour="red"))
    await world.converge()
    world.user(lambda spec: spec.pop("colour"))
    await world.converge()
    assert world.condition("Valid")["status"] == "True"
    assert world.condition("Ready")["status"] == "True"


async def test_a_taken_name_is_told_and_tried_again_rarely(world: World) -> None:
    taken = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": "tiny-proxy", "namespace": NAMESPACE},
        "spec": {"ports": []},
    }
    before = world.server.put(taken)
    world.user()
    again = await world.reconcile()
    assert again.failed
    assert again.after == 30.0
    assert world.condition("Ready")["reason"] == "NameConflict"
    assert "Service tiny-proxy" in world.condition("Ready")["message"]
    assert world.server.objects["Service", NAMESPACE, "tiny-proxy"] == before
    assert "NameConflict" in world.events()
    world.server.remove(("Service", NAMESPACE, "tiny-proxy"))
    await world.converge()
    assert world.condition("Ready")["status"] == "True"


def decision(desired: int) -> Outlook:
    made = TierDecision(1, desired, desired, Reason.TPOT_ABOVE_TARGET, Limit.NONE, "p95 60 ms")
    return Outlook(decode=made, traffic=TrafficView(fresh=True, requests=3, tpot_p95=0.06))


def autoscaled(spec: Manifest) -> None:
    spec["autoscaling"] = {"mode": "Auto", "slo": {"tpot": "50ms"}, "decode": {"max": 4}}


def decoders(world: World) -> list[int]:
    return [
        m["spec"]["replicas"]
        for m in world.server.of("StatefulSet")
        if "decoder" in m["metadata"]["name"]
    ]


async def test_a_decision_is_carried_out_told_and_remembered_by_the_cluster(world: World) -> None:
    world.user(autoscaled)
    await world.converge()
    world.scaler.outlook = decision(3)
    await world.converge()
    assert decoders(world) == [3]
    assert "Scaled" in world.events()
    assert world.cr["status"]["scaling"]["decode"]["desired"] == 3
    assert world.condition("SLOMet")["status"] == "False"
    # A restart knows nothing of the decision.
    world.scaler.outlook = Outlook()
    await world.converge_with(world.operator())
    assert decoders(world) == [3]
    # Nor does a new revision begin from the spec.
    world.user(lambda spec: spec["decode"].update(resources={"requests": {"cpu": "300m"}}))
    await world.converge()
    assert decoders(world) == [3]


async def test_advice_is_published_and_not_carried_out(world: World) -> None:
    def advised(spec: Manifest) -> None:
        autoscaled(spec)
        spec["autoscaling"]["mode"] = "Advise"

    world.user(advised)
    world.scaler.outlook = decision(3)
    await world.converge()
    assert decoders(world) == [1]
    assert world.cr["status"]["scaling"]["decode"]["desired"] == 3


@pytest.mark.parametrize(("decided", "expected"), [(9, 4), (0, 1)])
async def test_the_bounds_hold_whatever_is_decided(
    world: World, decided: int, expected: int
) -> None:
    world.user(autoscaled)
    world.scaler.outlook = decision(decided)
    await world.converge()
    assert decoders(world) == [expected]


async def test_an_object_that_does_not_take_what_is_applied_is_not_written_for_ever(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    world.user()
    await world.converge()
    store = world.server._store

    def stubborn(identity: Id, new: Manifest) -> Manifest:
        if identity[0] == "Service":
            new["spec"]["sessionAffinity"] = "ClientIP"
            new["metadata"]["annotations"] = {}
        return store(identity, new)

    world.server._store = stubborn  # type: ignore[method-assign]  # an admission webhook
    services = list(world.server.of("Service"))
    for service in services:
        world.server.put(service)
    await world.reconcile()
    before = len(world.server.writes)
    for _ in range(3):
        await world.reconcile()
    assert written(world, before) == []
    assert caplog.text.count("does not stay as it was applied") == len(services)
    # Once it is touched, it is tried again.
    world.server.put({**services[0], "metadata": {**services[0]["metadata"], "labels": {}}})
    await world.reconcile()
    assert ("apply", "Service") in written(world, before)
