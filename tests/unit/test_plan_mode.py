"""A switch between Disaggregated and Colocated is a rollout: somebody serves at every step."""

import pytest

from pd_operator.build import Desired
from pd_operator.observe import Manifest
from pd_operator.plan import Plan, Replicas, plan
from pd_operator.replicas import replicas
from pd_operator.traffic import Outlook
from tests.made import deployment, live, others, snapshot, tiers, wanted

SPLIT = wanted()
ALONE = wanted({"mode": "Colocated"})
SPLIT_SETS = {SPLIT.prefiller.name, SPLIT.decoder.name}
ALONE_SETS = {ALONE.decoder.name}


class Switch:
    """From `old`, which serves, to `new`; new StatefulSets begin without a ready pod."""

    def __init__(self, old: Desired, new: Desired) -> None:
        self.new = new
        self.objects = {(m["kind"], m["metadata"]["name"]): m for m in [*others(old), *tiers(old)]}

    def step(self) -> Plan:
        """Plan and carry out."""
        numbers = Replicas(len(self.new.tiers) - 1, 1)
        planned = plan(snapshot(self.objects.values()), self.new, numbers)
        for change in planned.apply:
            key = (change.ref.kind.name, change.ref.name)
            self.objects[key] = live(change.manifest, 0)
        for ref in planned.delete:
            del self.objects[ref.kind.name, ref.name]
        return planned

    def settle(self) -> None:
        for _ in range(9):
            if self.step() == Plan():
                return
        raise AssertionError("there is always more to write")

    def become_ready(self, name: str) -> None:
        self.objects["StatefulSet", name] = live(self.objects["StatefulSet", name])

    def names(self, kind: str) -> set[str]:
        return {name for found, name in self.objects if found == kind}

    def get(self, kind: str, name: str) -> Manifest | None:
        return self.objects.get((kind, name))


def test_to_disaggregated_the_old_engines_wait_for_both_new_tiers() -> None:
    switch = Switch(ALONE, SPLIT)
    switch.settle()
    assert switch.names("StatefulSet") == SPLIT_SETS | ALONE_SETS
    assert switch.get("Service", "tiny-prefiller") is not None
    switch.become_ready(SPLIT.decoder.name)
    switch.settle()
    assert switch.names("StatefulSet") == SPLIT_SETS | ALONE_SETS
    switch.become_ready(SPLIT.prefiller.name)
    switch.settle()
    assert switch.names("StatefulSet") == SPLIT_SETS


def test_to_colocated_both_old_tiers_wait_and_then_their_objects_go() -> None:
    switch = Switch(SPLIT, ALONE)
    switch.settle()
    assert switch.names("StatefulSet") == SPLIT_SETS | ALONE_SETS
    # Old pods still need them.
    assert switch.get("Service", "tiny-prefiller") is not None
    switch.become_ready(ALONE.decoder.name)
    switch.settle()
    assert switch.names("StatefulSet") == ALONE_SETS
    assert switch.get("Service", "tiny-prefiller") is None
    assert switch.get("PodDisruptionBudget", "tiny-prefiller") is None
    assert switch.get("Service", "tiny-decoder") is not None


@pytest.mark.parametrize(("old", "new"), [(ALONE, SPLIT), (SPLIT, ALONE)], ids=["to", "from"])
def test_going_back_in_the_middle_keeps_the_old_pods(old: Desired, new: Desired) -> None:
    switch = Switch(old, new)
    switch.settle()
    switch.new = old
    switch.settle()
    assert switch.names("StatefulSet") == {tier.name for tier in old.tiers}


def test_an_old_prefiller_without_a_ready_pod_frees_its_place_once_a_successor_is_made() -> None:
    switch = Switch(SPLIT, ALONE)
    name = SPLIT.prefiller.name
    switch.objects["StatefulSet", name] = live(tiers(SPLIT)[0], ready=0)
    assert switch.step().delete == ()
    assert [ref.name for ref in switch.step().delete] == [name]
    assert SPLIT.decoder.name in switch.names("StatefulSet")


def test_replicas_of_a_tier_that_is_not_there_are_none() -> None:
    spec = {"mode": "Colocated", "decode": {"replicas": 3}, "prefill": {"replicas": 2}}
    found = replicas(deployment(spec), wanted(spec), snapshot([]), Outlook())
    assert found == Replicas(0, 3)
    auto = {"mode": "Auto", "slo": {"ttft": "1s"}, "decode": {"min": 2, "max": 4}}
    spec = {"mode": "Colocated", "autoscaling": auto, "decode": {"replicas": 3}}
    found = replicas(deployment(spec), wanted(spec), snapshot(tiers(ALONE, replicas=4)), Outlook())
    assert found == Replicas(0, 4)
