"""This release keeps the engine pods of every former release."""

from typing import Any

import pytest

from pd_operator import kinds
from pd_operator.adopt import adopt
from pd_operator.api.deployment import PDDeployment
from pd_operator.build import desired
from pd_operator.observe import Manifest, Owner, Snapshot, observe
from pd_operator.plan import Replicas, plan
from pd_shared import labels
from tests.golden import release, update
from tests.made import live

KEPT = [
    pytest.param(deployment, sets, id=f"{version}-{name}")
    for version in release.releases()
    for name, (deployment, sets) in release.kept(version).items()
]


def snapshot(deployment: PDDeployment, sets: list[Manifest]) -> Snapshot:
    metadata = deployment.metadata
    listed: dict[kinds.Kind, list[Manifest]] = {kind: [] for kind in kinds.CHILDREN}
    listed[kinds.STATEFUL_SET] = [live(manifest) for manifest in sets]
    return observe(Owner(metadata.namespace, metadata.name, metadata.uid), listed, [])


def test_there_are_releases() -> None:
    assert len(KEPT) >= len(release.EXAMPLES)


@pytest.mark.parametrize(("deployment", "sets"), KEPT)
def test_no_pod_of_a_former_release_is_restarted(
    deployment: PDDeployment, sets: list[dict[str, Any]]
) -> None:
    found = snapshot(deployment, sets)
    adopted = adopt(found, desired(deployment, update.DEFAULTS))
    assert [tier.name for tier in adopted.tiers] == [m["metadata"]["name"] for m in sets]
    planned = plan(found, adopted, Replicas(1, 1))
    assert planned.delete == ()
    templates = {m["metadata"]["name"]: m["spec"]["template"] for m in sets}
    for change in planned.apply:
        if change.ref.kind == kinds.STATEFUL_SET:
            assert change.manifest["spec"]["template"] == templates[change.ref.name]


@pytest.mark.parametrize(("deployment", "sets"), KEPT)
def test_a_change_is_still_a_rollout(deployment: PDDeployment, sets: list[dict[str, Any]]) -> None:
    annotations = {labels.RESTARTED_AT: "now"}
    metadata = deployment.metadata.model_copy(update={"annotations": annotations})
    restarted = desired(deployment.model_copy(update={"metadata": metadata}), update.DEFAULTS)
    assert adopt(snapshot(deployment, sets), restarted) == restarted
