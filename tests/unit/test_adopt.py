"""A new release keeps the pods of the former one, until the spec changes."""

import copy
from collections.abc import Mapping
from typing import Any

import pytest

from pd_operator.adopt import adopt
from pd_operator.build import Desired, desired
from pd_operator.observe import APPLIED, Manifest
from pd_operator.plan import Plan, Replicas, plan
from pd_shared import labels
from tests.made import DEFAULTS, deployment, everything, live, others, snapshot, tiers, wanted

ONE = Replicas(1, 1)


def former(children: Desired, pairing: str = "formerly") -> list[Manifest]:
    """The StatefulSets as another release would have made them for the same spec."""
    made = copy.deepcopy(tiers(children))
    for manifest in made:
        metadata, template = manifest["metadata"], manifest["spec"]["template"]
        metadata["name"] = f"{metadata['name'][:-8]}formerly"
        for place in (metadata, template["metadata"]):
            place["labels"] |= {labels.REVISION: "formerly", labels.PAIRING: pairing}
        manifest["spec"]["selector"]["matchLabels"][labels.REVISION] = "formerly"
        template["spec"]["containers"][0]["args"].append("--of-the-former-release")
        metadata["annotations"][APPLIED] = "by the former release"
    return made


def changed(spec: Manifest | None = None, **metadata: Any) -> Desired:
    return desired(deployment(spec, **metadata), DEFAULTS)


def test_sets_of_equal_inputs_stay_and_are_paired_as_they_are() -> None:
    found = snapshot([*others(wanted()), *former(wanted())])
    adopted = adopt(found, wanted())
    assert {tier.revision for tier in adopted.tiers} == {"formerly"}
    assert adopted.pairing == "formerly"
    planned = plan(found, adopted, ONE)
    assert planned.delete == ()
    for change in planned.apply:
        before = found.children[(change.ref.kind.name, change.ref.name)].manifest
        assert change.manifest["spec"]["template"] == before["spec"]["template"]


def test_it_settles_after_one_write() -> None:
    found = snapshot([*others(wanted()), *former(wanted())])
    planned = plan(found, adopt(found, wanted()), ONE)
    again = snapshot([*others(wanted()), *(live(change.manifest) for change in planned.apply)])
    assert plan(again, adopt(again, wanted()), ONE) == Plan()


def test_it_can_be_scaled() -> None:
    found = snapshot([*others(wanted()), *former(wanted())])
    planned = plan(found, adopt(found, wanted()), Replicas(1, 3))
    replicas = {c.ref.name: c.manifest["spec"]["replicas"] for c in planned.apply}
    assert replicas == {"tiny-prefiller-formerly": 1, "tiny-decoder-formerly": 3}


@pytest.mark.parametrize(
    "change",
    [
        {"decode": {"resources": {"requests": {"cpu": "200m"}}}},
        {"engine": {"image": "engine:2", "device": "cpu"}},
    ],
)
def test_a_change_of_the_spec_brings_the_new_template_to_both_tiers(change: Manifest) -> None:
    """The new release pairs otherwise: a half of each would not be paired."""
    found = snapshot([*others(wanted()), *former(wanted())])
    after = changed(change)
    assert adopt(found, after) == after


def test_one_tier_alone_is_rolled_where_both_releases_pair_alike() -> None:
    found = snapshot([*others(wanted()), *former(wanted(), pairing=wanted().pairing)])
    after = changed({"decode": {"resources": {"requests": {"cpu": "200m"}}}})
    adopted = adopt(found, after)
    assert adopted.prefiller.revision == "formerly"
    assert adopted.decoder == after.decoder


def test_the_annotation_restarts_both_tiers() -> None:
    found = snapshot([*others(wanted()), *former(wanted())])
    after = changed(annotations={labels.RESTARTED_AT: "2026-12-02"})
    assert adopt(found, after) == after
    assert {tier.revision for tier in after.tiers}.isdisjoint(
        {tier.revision for tier in wanted().tiers}
    )


@pytest.mark.parametrize(
    "policy",
    [
        {"proxy": {"replicas": 5}},
        {"autoscaling": {"mode": "Advise", "slo": {"ttft": "1s"}}},
        {"network": {"isolation": "Disabled"}},
    ],
)
def test_policy_is_no_input(policy: Manifest) -> None:
    assert [t.inputs for t in changed(policy).tiers] == [t.inputs for t in wanted().tiers]


def test_another_cluster_domain_and_another_uid_are_inputs() -> None:
    assert changed(uid="uid-2").decoder.inputs != wanted().decoder.inputs


def test_what_is_there_under_its_own_name_is_preferred() -> None:
    found = snapshot([*everything(wanted()), *former(wanted())])
    assert adopt(found, wanted()) == wanted()


def annotations(manifest: Mapping[str, Any]) -> dict[str, str]:
    result: dict[str, str] = manifest["metadata"]["annotations"]
    return result


def test_sets_without_the_hash_or_of_somebody_else_are_not_adopted() -> None:
    without = former(wanted())
    for manifest in without:
        annotations(manifest).pop(labels.INPUTS)
    assert adopt(snapshot(without), wanted()) == wanted()
    foreign = former(wanted())
    for manifest in foreign:
        manifest["metadata"]["ownerReferences"][0]["uid"] = "uid-2"
    assert adopt(snapshot(foreign), wanted()) == wanted()


def test_sets_that_go_are_not_adopted() -> None:
    going = former(wanted())
    for manifest in going:
        manifest["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert adopt(snapshot(going), wanted()) == wanted()
