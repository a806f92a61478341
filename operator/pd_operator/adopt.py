"""A new release of the operator keeps the pods that its former release made; pure.

A release may render another pod template for the same spec. Were that a new revision, an upgrade of
the operator would restart every engine. So a StatefulSet carries the hash of the inputs that it was
made from (`build/inputs.py`); one of equal inputs is the desired one, whatever its template. The
next change of the spec rolls the tier, and brings the new template with it.
"""

from dataclasses import replace

from pd_operator.build import Desired, TierChild
from pd_operator.observe import APPLIED, Child, Manifest, Ownership, Snapshot, StatefulSetView
from pd_shared import labels


def adopt(snapshot: Snapshot, desired: Desired) -> Desired:
    """`desired` with tiers as they are, where they were made from equal inputs.

    All tiers or none: what a new release pairs otherwise must not be paired by half.
    """
    tiers = tuple(_adopted(snapshot, tier) for tier in desired.tiers)
    pairings = {tier.pairing for tier in tiers}
    if tiers == desired.tiers or len(pairings) > 1:
        return desired
    return replace(desired, tiers=tiers, pairing=pairings.pop())


def _adopted(snapshot: Snapshot, tier: TierChild) -> TierChild:
    present = [s for s in snapshot.tier(tier.component) if not s.deleting]
    if any(s.name == tier.name for s in present):
        return tier
    for found in present:
        child = snapshot.children[(found.ref.kind.name, found.name)]
        if _made_from(child) == tier.inputs:
            return _as_it_is(tier, found, child)
    return tier


def _made_from(child: Child) -> str | None:
    if child.ownership is not Ownership.OURS:
        return None
    annotations: dict[str, str] = child.manifest["metadata"].get("annotations") or {}
    return annotations.get(labels.INPUTS)


def _as_it_is(tier: TierChild, found: StatefulSetView, child: Child) -> TierChild:
    live, wanted = child.manifest, tier.stateful_set
    annotations = {
        name: value
        for name, value in live["metadata"]["annotations"].items()
        if (name.startswith(f"{labels.GROUP}/") and name != APPLIED) or name == labels.GANG_SIZE
    }
    manifest: Manifest = {
        **wanted,
        "metadata": {
            **wanted["metadata"],
            "name": found.name,
            "labels": dict(live["metadata"]["labels"]),
            "annotations": annotations,
        },
        "spec": {name: value for name, value in live["spec"].items() if name != "replicas"},
    }
    return TierChild(
        tier.component,
        found.name,
        found.revision,
        found.pairing,
        manifest,
        tier.inputs,
        found.group_size,
    )
