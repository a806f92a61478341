"""What is written for what is there, walked through whole rollouts."""

import copy
from typing import Any

import pytest

from pd_operator.build import Desired
from pd_operator.observe import APPLIED, Manifest
from pd_operator.plan import Plan, Replicas, plan
from tests.made import everything, live, others, snapshot, tiers, wanted

ONE = Replicas(1, 1)
OLD = wanted()
ROLLED = wanted({"decode": {"resources": {"requests": {"cpu": "200m"}}}})
PAIRED = wanted({"engine": {"image": "engine:2", "device": "cpu"}})


def applied(planned: Plan) -> set[str]:
    return {str(change.ref) for change in planned.apply}


def deleted(planned: Plan) -> set[str]:
    return {str(ref) for ref in planned.delete}


def test_from_nothing_everything_is_applied_and_must_be_looked_up_first() -> None:
    planned = plan(snapshot([]), OLD, ONE)
    assert len(planned.apply) == len(OLD.objects) + 2
    assert all(change.uid == "" for change in planned.apply)
    assert planned.delete == ()


def test_when_all_is_there_nothing_is_written() -> None:
    assert plan(snapshot(everything(OLD)), OLD, ONE) == Plan()


def test_what_others_add_is_left_alone() -> None:
    children = everything(OLD)
    for child in children:
        child["metadata"].setdefault("annotations", {})["kubectl.kubernetes.io/restartedAt"] = "t"
        child["metadata"]["labels"]["team"] = "a"
    assert plan(snapshot(children), OLD, ONE) == Plan()


def edited(change: Any) -> list[Manifest]:
    children = everything(OLD)
    change(children)
    return children


def service(children: list[Manifest]) -> Manifest:
    return next(
        m for m in children if (m["kind"], m["metadata"]["name"]) == ("Service", "tiny-proxy")
    )


def test_an_edit_by_hand_is_put_back() -> None:
    children = everything(OLD)
    service(children)["spec"]["selector"] = {"app": "x"}
    planned = plan(snapshot(children), OLD, ONE)
    assert applied(planned) == {"Service tiny-proxy"}
    assert planned.apply[0].uid == "uid-of-tiny-proxy"


def test_a_field_that_is_not_set_any_more_is_seen_by_the_hash() -> None:
    children = everything(OLD)
    service(children)["metadata"]["annotations"][APPLIED] = "of an older operator"
    assert applied(plan(snapshot(children), OLD, ONE)) == {"Service tiny-proxy"}


def test_an_ownerless_child_is_taken_back() -> None:
    children = everything(OLD)
    del service(children)["metadata"]["ownerReferences"]
    assert applied(plan(snapshot(children), OLD, ONE)) == {"Service tiny-proxy"}


def test_a_foreign_object_is_a_conflict_and_the_rest_goes_on() -> None:
    children = others(OLD)
    service(children)["metadata"]["ownerReferences"][0]["uid"] = "somebody"
    service(children)["metadata"]["ownerReferences"][0]["kind"] = "Other"
    planned = plan(snapshot(children), OLD, ONE)
    assert [str(ref) for ref in planned.conflicts] == ["Service tiny-proxy"]
    assert len(planned.apply) == 2
    assert planned.delete == ()


@pytest.mark.parametrize("state", ["deleting", "previous"])
def test_a_name_about_to_be_free_is_waited_for(state: str) -> None:
    children = everything(OLD)
    if state == "deleting":
        service(children)["metadata"]["deletionTimestamp"] = "t"
    else:
        service(children)["metadata"]["ownerReferences"][0]["uid"] = "older"
    planned = plan(snapshot(children), OLD, ONE)
    assert [str(ref) for ref in planned.waiting] == ["Service tiny-proxy"]
    assert (planned.apply, planned.delete, planned.conflicts) == ((), (), ())


def test_replicas_set_by_hand_are_put_back() -> None:
    children = [*others(OLD), *tiers(OLD, replicas=3)]
    planned = plan(snapshot(children), OLD, Replicas(3, 1))
    assert applied(planned) == {f"StatefulSet {OLD.decoder.name}"}
    assert planned.apply[0].manifest["spec"]["replicas"] == 1


def test_what_is_not_desired_any_more_is_pruned_with_its_uid() -> None:
    store = wanted({"mooncake": {"store": {"enabled": True, "segmentSize": "64Mi"}}})
    names = {(m["kind"], m["metadata"]["name"]) for m in store.objects}
    gone = names - {(m["kind"], m["metadata"]["name"]) for m in OLD.objects}
    assert gone
    extra = [m for m in others(store) if (m["kind"], m["metadata"]["name"]) in gone]
    planned = plan(snapshot([*everything(OLD), *extra]), OLD, ONE)
    assert deleted(planned) == {f"{kind} {name}" for kind, name in gone}
    assert all(ref.uid and ref.resource_version == "7" for ref in planned.delete)


def test_what_the_old_revision_needs_stays_as_long_as_it_serves() -> None:
    store = wanted({"mooncake": {"store": {"enabled": True, "segmentSize": "64Mi"}}})
    there = [*everything(store), *others(OLD)]
    begun = snapshot([*there, *tiers(OLD, ready=0)])
    assert plan(begun, OLD, ONE).delete == ()
    done = plan(snapshot([*there, *tiers(OLD)]), OLD, ONE)
    assert {ref.kind.name for ref in done.delete} == {"StatefulSet"}
    after = plan(snapshot([*others(store), *others(OLD), *tiers(OLD)]), OLD, ONE)
    assert {str(ref) for ref in after.delete} == {
        "ConfigMap tiny-engine",
        "Deployment tiny-mooncake",
        "PodDisruptionBudget tiny-mooncake",
        "Service tiny-mooncake",
    }


def test_only_own_objects_are_pruned() -> None:
    def extra(**metadata: Any) -> Manifest:
        made = live(OLD.objects[0], **metadata)
        made["metadata"]["name"] = f"extra-{len(made['metadata'])}-{next(numbers)}"
        return made

    numbers = iter(range(9))
    foreign = extra(ownerReferences=[])
    foreign["metadata"]["labels"] = {}
    unmarked = extra(ownerReferences=[])
    deleting = extra(deletionTimestamp="t")
    left_behind = extra(ownerReferences=[], annotations={APPLIED: "x"})
    planned = plan(snapshot([*everything(OLD), foreign, unmarked, deleting, left_behind]), OLD, ONE)
    assert [ref.name for ref in planned.delete] == [left_behind["metadata"]["name"]]


class Rollout:
    """A rollout from OLD to `new`, one step after the other."""

    def __init__(self, new: Desired) -> None:
        self.new = new
        self.sets = {m["metadata"]["name"]: m for m in tiers(OLD)}

    def step(self, ready: int = 0) -> Plan:
        """Plan and carry out; new StatefulSets have so many ready pods."""
        planned = plan(snapshot([*others(self.new), *self.sets.values()]), self.new, ONE)
        for change in planned.apply:
            if change.ref.kind.name == "StatefulSet":
                self.sets[change.ref.name] = live(change.manifest, ready)
        for ref in planned.delete:
            del self.sets[ref.name]
        return planned

    def become_ready(self, name: str) -> None:
        self.sets[name] = live(self.sets[name])


def test_one_tier_rolls_and_its_old_revision_serves_until_the_new_one_does() -> None:
    rollout = Rollout(ROLLED)
    assert ROLLED.prefiller.name == OLD.prefiller.name
    assert applied(rollout.step()) == {f"StatefulSet {ROLLED.decoder.name}"}
    assert rollout.step() == Plan()
    rollout.become_ready(ROLLED.decoder.name)
    assert deleted(rollout.step()) == {f"StatefulSet {OLD.decoder.name}"}
    assert rollout.step() == Plan()
    assert set(rollout.sets) == {ROLLED.prefiller.name, ROLLED.decoder.name}


def test_across_a_change_of_pairing_both_old_tiers_wait_for_both_new_ones() -> None:
    rollout = Rollout(PAIRED)
    new = {PAIRED.prefiller.name, PAIRED.decoder.name}
    assert applied(rollout.step()) == {f"StatefulSet {name}" for name in new}
    rollout.become_ready(PAIRED.decoder.name)
    assert rollout.step() == Plan()
    rollout.become_ready(PAIRED.prefiller.name)
    assert len(rollout.step().delete) == 2
    assert set(rollout.sets) == new


def test_an_old_revision_without_a_ready_pod_frees_its_place_at_once() -> None:
    rollout = Rollout(ROLLED)
    rollout.sets[OLD.decoder.name] = live(rollout.sets[OLD.decoder.name], ready=0)
    assert deleted(rollout.step()) == set()
    assert deleted(rollout.step()) == {f"StatefulSet {OLD.decoder.name}"}


def test_going_back_in_the_middle_keeps_the_old_pods() -> None:
    rollout = Rollout(ROLLED)
    rollout.step()
    rollout.new = OLD
    planned = rollout.step()
    assert applied(planned) == set()
    assert deleted(planned) == {f"StatefulSet {ROLLED.decoder.name}"}


def test_the_new_revision_must_have_all_replicas_before_the_old_one_goes() -> None:
    sets = [*tiers(OLD, replicas=2), *tiers(ROLLED, replicas=1)[1:]]
    seen = snapshot([*others(ROLLED), *sets])
    planned = plan(seen, ROLLED, Replicas(2, 2))
    assert applied(planned) == {f"StatefulSet {ROLLED.decoder.name}"}
    assert deleted(planned) == set()


def test_planning_changes_nothing_that_it_was_given() -> None:
    children = everything(OLD)
    before = copy.deepcopy(children)
    plan(snapshot(children), ROLLED, ONE)
    assert children == before


def test_a_launcher_stays_for_as_long_as_pods_start_with_it() -> None:
    (before,) = [m for m in everything(OLD) if "-engine-launcher-" in m["metadata"]["name"]]
    earlier = copy.deepcopy(before)
    earlier["metadata"]["name"] = "tiny-engine-launcher-earlier"
    children = [*everything(OLD), earlier]
    assert deleted(plan(snapshot(children), OLD, ONE)) == {"ConfigMap tiny-engine-launcher-earlier"}

    (decoders,) = [m for m in children if m["metadata"]["name"] == OLD.decoder.name]
    volumes = decoders["spec"]["template"]["spec"]["volumes"]
    (volume,) = [v for v in volumes if v["name"] == "launcher"]
    volume["configMap"]["name"] = "tiny-engine-launcher-earlier"
    assert deleted(plan(snapshot(children), OLD, ONE)) == set()
