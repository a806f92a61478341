"""From what exists and what should exist to what is to be written; pure.

Nothing is remembered between two plans: each step of a rollout follows from what is observed, so
that a restart in the middle goes on where it was.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from pd_operator import kinds
from pd_operator.build import Desired, TierChild, names
from pd_operator.compare import contains, digest
from pd_operator.kinds import kind_of
from pd_operator.observe import (
    APPLIED,
    Child,
    Identity,
    Manifest,
    Ownership,
    Ref,
    Snapshot,
    StatefulSetView,
)
from pd_shared import labels

_PRUNED: Final = frozenset(kind.name for kind in kinds.CHILDREN)


@dataclass(frozen=True)
class Replicas:
    """Replicas per tier, each a pod or a group of pods."""

    prefill: int
    """0 in mode Colocated, which has no prefillers."""
    decode: int

    def of(self, component: str) -> int:
        """Pods of the tier `component`, prefiller or decoder."""
        return self.prefill if component == labels.PREFILLER else self.decode


@dataclass(frozen=True)
class Change:
    """An object to apply. Without `uid` it was not listed: whose it is must be looked up first."""

    manifest: Manifest
    uid: str = ""

    @property
    def ref(self) -> Ref:
        """Which object."""
        return Ref(kind_of(self.manifest), self.manifest["metadata"]["name"], self.uid)


@dataclass(frozen=True)
class Plan:
    """What one reconcile writes, in this order; empty in steady state."""

    apply: tuple[Change, ...] = ()
    delete: tuple[Ref, ...] = ()
    conflicts: tuple[Ref, ...] = ()
    """Names that are needed and belong to somebody else."""
    waiting: tuple[Ref, ...] = ()
    """Names that are needed and whose present holder is about to go."""


def plan(snapshot: Snapshot, desired: Desired, replicas: Replicas) -> Plan:
    """What differs between the snapshot and what is desired."""
    wanted = [
        *desired.objects,
        *(with_replicas(tier, replicas.of(tier.component)) for tier in desired.tiers),
    ]
    apply: list[Change] = []
    conflicts: list[Ref] = []
    waiting: list[Ref] = []
    for manifest in wanted:
        kind, name = kind_of(manifest), manifest["metadata"]["name"]
        live = snapshot.children.get((kind.name, name))
        if live is None:
            apply.append(Change(marked(manifest)))
        elif live.ownership is Ownership.FOREIGN:
            conflicts.append(live.ref)
        elif live.deleting or live.ownership is Ownership.PREVIOUS:
            waiting.append(live.ref)
        elif differs(live.manifest, marked(manifest)):
            apply.append(Change(marked(manifest), live.ref.uid))
    return Plan(
        apply=tuple(apply),
        delete=tuple(_prune(snapshot, desired, wanted, replicas)),
        conflicts=tuple(conflicts),
        waiting=tuple(waiting),
    )


def marked(manifest: Manifest) -> Manifest:
    """The manifest with the hash of itself as an annotation."""
    metadata = manifest["metadata"]
    annotations = {**metadata.get("annotations", {}), APPLIED: digest(manifest)}
    return {**manifest, "metadata": {**metadata, "annotations": annotations}}


def differs(live: Manifest, wanted: Manifest) -> bool:
    """Whether a live object has to be applied again."""
    return not contains(live, wanted)


def with_replicas(tier: TierChild, replicas: int) -> Manifest:
    """A tier's StatefulSet with so many replicas."""
    manifest = tier.stateful_set
    pods = replicas * tier.group_size
    metadata = manifest["metadata"]
    annotations = metadata.get("annotations", {})
    if labels.GANG_SIZE in annotations:
        metadata = {**metadata, "annotations": {**annotations, labels.GANG_SIZE: str(pods)}}
    return {**manifest, "metadata": metadata, "spec": {**manifest["spec"], "replicas": pods}}


def _prune(
    snapshot: Snapshot, desired: Desired, wanted: Iterable[Manifest], replicas: Replicas
) -> Iterator[Ref]:
    present = {(m["kind"], m["metadata"]["name"]) for m in wanted} | _mounted(snapshot)
    old = superseded(snapshot, desired)
    kept = {o.name for o in old if not _may_go(o, snapshot, desired, replicas)}
    for identity, found in snapshot.children.items():
        if identity in present or identity[0] not in _PRUNED or not _ours(found):
            continue
        if found.ref.kind == kinds.STATEFUL_SET:
            if found.ref.name in kept:
                continue
        elif old:
            # Pods of the old revision may still need it: their ConfigMap, the Mooncake master.
            continue
        yield found.ref


def _mounted(snapshot: Snapshot) -> set[Identity]:
    """ConfigMaps that pods of a StatefulSet need to start, such as an earlier launcher."""
    return {
        (kinds.CONFIG_MAP.name, volume["configMap"].get("name", ""))
        for found in snapshot.children.values()
        if found.ref.kind == kinds.STATEFUL_SET
        for volume in found.manifest["spec"]["template"]["spec"].get("volumes", ())
        if "configMap" in volume
    }


def _ours(found: Child) -> bool:
    if found.deleting:
        return False
    if found.ownership is Ownership.ORPHAN:
        # Left behind by a PDDeployment that was deleted without its children.
        return APPLIED in found.manifest["metadata"].get("annotations", {})
    return found.ownership is Ownership.OURS


def superseded(snapshot: Snapshot, desired: Desired) -> tuple[StatefulSetView, ...]:
    """StatefulSets of revisions other than the desired ones."""
    current = {tier.name for tier in desired.tiers}
    return tuple(s for s in snapshot.stateful_sets if s.name not in current)


def current(snapshot: Snapshot, tier: TierChild) -> StatefulSetView | None:
    """The StatefulSet of a tier's desired revision, if it is there."""
    return next((s for s in snapshot.stateful_sets if s.name == tier.name), None)


def serves(snapshot: Snapshot, tier: TierChild, replicas: int) -> bool:
    """Whether a tier's desired revision has all its replicas ready."""
    found = current(snapshot, tier)
    return found is not None and found.complete and found.ready >= replicas


def _may_go(old: StatefulSetView, snapshot: Snapshot, desired: Desired, replicas: Replicas) -> bool:
    """Whether an old revision is of no more use.

    It serves until its successor does. Across a change of pairing, and so of the mode, no new tier
    serves without the others, so all old ones wait for all new ones. One without any ready pod
    serves nobody, and its GPUs may be what the new revision waits for.
    """
    if old.component not in names.TIERS:
        return True
    own = desired.tier(old.component)
    # Prefillers have no successor in mode Colocated: the decoders take over from them.
    successors = desired.tiers if own is None else (own,)
    if any(current(snapshot, tier) is None for tier in successors):
        return False
    if old.ready == 0 and old.observed:
        return True
    needed = successors if old.pairing == desired.pairing else desired.tiers
    return all(serves(snapshot, tier, replicas.of(tier.component)) for tier in needed)
