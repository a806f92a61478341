"""From raw LIST results to what exists for one PDDeployment; pure.

Labels only preselect: what counts is the controller in the ownerReferences.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from pd_operator import kinds
from pd_operator.api.deployment import API_VERSION, KIND
from pd_operator.kinds import Kind
from pd_operator.pods import PodView, ready_groups, view
from pd_shared import labels
from pd_shared.labels import GROUP

Manifest = dict[str, Any]

APPLIED: Final = f"{GROUP}/applied"
"""Annotation on children: hash of what was applied last, so that a removed field is seen."""


class Ownership(StrEnum):
    """Whose an object is."""

    OURS = "Ours"
    ORPHAN = "Orphan"
    """Has our labels and no controller: to be taken back."""
    PREVIOUS = "Previous"
    """Of a deleted PDDeployment of the same name: garbage collection will remove it."""
    FOREIGN = "Foreign"
    """Somebody else's: never touched."""


@dataclass(frozen=True)
class Owner:
    """Identity of the PDDeployment whose children are looked at."""

    namespace: str
    name: str
    uid: str


@dataclass(frozen=True)
class Ref:
    """Names one object of a namespace; `uid` and `resource_version` guard its deletion."""

    kind: Kind
    name: str
    uid: str = ""
    resource_version: str = ""

    def __str__(self) -> str:
        return f"{self.kind.name} {self.name}"


Identity = tuple[str, str]
"""Kind and name: unique within the namespace."""


@dataclass(frozen=True)
class Child:
    """A live object of a child kind."""

    ref: Ref
    ownership: Ownership
    deleting: bool
    manifest: Manifest


@dataclass(frozen=True)
class StatefulSetView:
    """One tier's StatefulSet of one revision, counted in replicas: pods, or whole groups."""

    name: str
    component: str
    revision: str
    pairing: str
    replicas: int
    """As asked for in its spec."""
    pods: int
    """Those that exist, ready or not."""
    ready: int
    observed: bool
    """Its controller has seen its latest generation."""
    deleting: bool
    created: str
    ref: Ref
    group_size: int = 1
    """Pods of a replica."""

    @property
    def complete(self) -> bool:
        """All replicas asked for are ready."""
        return self.observed and not self.deleting and self.ready >= self.replicas


@dataclass(frozen=True)
class DeploymentView:
    """A Deployment child; replicas are pods."""

    name: str
    component: str
    replicas: int
    ready: int
    updated: int
    observed: bool
    problem: str = ""
    """Message of its ReplicaFailure condition."""

    @property
    def complete(self) -> bool:
        """All pods asked for are ready and of the latest template."""
        return self.observed and self.ready >= self.replicas and self.updated >= self.replicas


class JobState(StrEnum):
    """How far a Job is."""

    ACTIVE = "Active"
    COMPLETE = "Complete"
    FAILED = "Failed"


@dataclass(frozen=True)
class JobView:
    """A Job child."""

    name: str
    component: str
    state: JobState
    attempts: int
    """Pods of it that failed."""
    message: str = ""
    """Of its condition Failed."""


@dataclass(frozen=True)
class Snapshot:
    """What exists for one PDDeployment."""

    owner: Owner
    children: Mapping[Identity, Child]
    stateful_sets: tuple[StatefulSetView, ...] = ()
    deployments: tuple[DeploymentView, ...] = ()
    jobs: tuple[JobView, ...] = ()
    pods: tuple[PodView, ...] = ()
    complaints: Mapping[str, str] = field(default_factory=dict)
    """Why pods of a StatefulSet could not be created, by its name."""

    def tier(self, component: str) -> tuple[StatefulSetView, ...]:
        """A tier's StatefulSets, the newest first."""
        found = [s for s in self.stateful_sets if s.component == component]
        return tuple(sorted(found, key=lambda s: (s.created, s.name), reverse=True))

    def ready(self, component: str) -> int:
        """A tier's replicas that are ready now, of all revisions."""
        groups = {s.name: s.group_size for s in self.tier(component) if s.group_size > 1}
        pods = self.pods_of(component)
        alone = sum(
            1 for pod in pods if pod.owner not in groups and pod.ready and not pod.terminating
        )
        return alone + sum(
            ready_groups((pod for pod in pods if pod.owner == name), size)
            for name, size in groups.items()
        )

    def pods_of(self, component: str) -> tuple[PodView, ...]:
        """A component's pods, of all revisions."""
        return tuple(pod for pod in self.pods if pod.component == component)


def selector(name: str) -> str:
    """Label selector of a PDDeployment's children and pods."""
    return f"{labels.DEPLOYMENT}={name}"


def controller(manifest: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The controlling ownerReference of an object."""
    references = manifest["metadata"].get("ownerReferences") or ()
    return next((reference for reference in references if reference.get("controller")), None)


def ownership(manifest: Mapping[str, Any], owner: Owner) -> Ownership:
    """Whose a live object is."""
    reference = controller(manifest)
    if reference is None:
        found = manifest["metadata"].get("labels") or {}
        ours = (
            found.get(labels.K8S_MANAGED_BY) == labels.MANAGED_BY
            and found.get(labels.DEPLOYMENT) == owner.name
        )
        return Ownership.ORPHAN if ours else Ownership.FOREIGN
    if reference["uid"] == owner.uid:
        return Ownership.OURS
    previous = (
        reference["kind"] == KIND
        and reference["apiVersion"].partition("/")[0] == API_VERSION.partition("/")[0]
        and reference["name"] == owner.name
    )
    return Ownership.PREVIOUS if previous else Ownership.FOREIGN


def child(kind: Kind, manifest: Manifest, owner: Owner) -> Child:
    """A live object as a child."""
    metadata = manifest["metadata"]
    return Child(
        ref=Ref(kind, metadata["name"], metadata["uid"], metadata.get("resourceVersion", "")),
        ownership=ownership(manifest, owner),
        deleting="deletionTimestamp" in metadata,
        manifest=manifest,
    )


def observe(
    owner: Owner,
    listed: Mapping[Kind, Iterable[Manifest]],
    pods: Iterable[Manifest],
    events: Iterable[Manifest] = (),
) -> Snapshot:
    """The snapshot from LISTs of all child kinds, of pods and of Warning events."""
    found = [
        child(kind, manifest, owner) for kind, manifests in listed.items() for manifest in manifests
    ]
    ours = [c for c in found if c.ownership is Ownership.OURS]
    raw = [c for c in ours if c.ref.kind == kinds.STATEFUL_SET]
    deployments = tuple(_deployment(c) for c in ours if c.ref.kind == kinds.DEPLOYMENT)
    jobs = [c for c in ours if c.ref.kind == kinds.JOB]
    owners = {c.ref.uid for c in (*raw, *jobs)}
    names = {d.name for d in deployments}
    views = tuple(view(pod) for pod in pods if _is_our_pod(pod, owners, names))
    sets = tuple(_stateful_set(c, views) for c in raw)
    return Snapshot(
        owner=owner,
        children={(c.ref.kind.name, c.ref.name): c for c in found},
        stateful_sets=sets,
        deployments=deployments,
        jobs=tuple(_job(c) for c in jobs),
        pods=views,
        complaints=_complaints(sets, events),
    )


def _is_our_pod(pod: Manifest, owners: set[str], deployments: set[str]) -> bool:
    reference = controller(pod)
    if reference is None:
        return False
    if reference["kind"] == "ReplicaSet":
        # ReplicaSets are not listed: theirs is `<deployment>-<hash without a dash>`.
        return reference["name"].rpartition("-")[0] in deployments
    return reference["uid"] in owners


def _observed(manifest: Manifest) -> bool:
    generation = manifest["metadata"].get("generation", 0)
    seen: int = manifest.get("status", {}).get("observedGeneration", 0)
    return bool(seen >= generation)


def _stateful_set(found: Child, pods: Iterable[PodView]) -> StatefulSetView:
    metadata, status = found.manifest["metadata"], found.manifest.get("status", {})
    spec = found.manifest.get("spec", {})
    template = spec.get("template", {}).get("metadata", {})
    size = labels.group_size(template.get("annotations") or {})
    ready = status.get("readyReplicas", 0)
    if size > 1:
        # The controller counts pods, and a group serves only as a whole.
        ready = ready_groups((pod for pod in pods if pod.owner == metadata["name"]), size)
    own = metadata.get("labels") or {}
    return StatefulSetView(
        name=metadata["name"],
        component=own.get(labels.COMPONENT, ""),
        revision=own.get(labels.REVISION, ""),
        pairing=own.get(labels.PAIRING, ""),
        replicas=spec.get("replicas", 1) // size,
        pods=status.get("replicas", 0) // size,
        ready=ready,
        observed=_observed(found.manifest),
        deleting=found.deleting,
        created=metadata.get("creationTimestamp", ""),
        ref=found.ref,
        group_size=size,
    )


def _deployment(found: Child) -> DeploymentView:
    metadata, status = found.manifest["metadata"], found.manifest.get("status", {})
    failure = next(
        (
            condition.get("message", "")
            for condition in status.get("conditions", ())
            if condition["type"] == "ReplicaFailure" and condition["status"] == "True"
        ),
        "",
    )
    return DeploymentView(
        name=metadata["name"],
        component=(metadata.get("labels") or {}).get(labels.COMPONENT, ""),
        replicas=found.manifest.get("spec", {}).get("replicas", 1),
        ready=status.get("readyReplicas", 0),
        updated=status.get("updatedReplicas", 0),
        observed=_observed(found.manifest),
        problem=failure,
    )


def _job(found: Child) -> JobView:
    metadata, status = found.manifest["metadata"], found.manifest.get("status", {})
    true = {c["type"]: c for c in status.get("conditions", ()) if c["status"] == "True"}
    failed = true.get("Failed") or true.get("FailureTarget")
    state = JobState.FAILED if failed else JobState.ACTIVE
    return JobView(
        name=metadata["name"],
        component=(metadata.get("labels") or {}).get(labels.COMPONENT, ""),
        state=JobState.COMPLETE if "Complete" in true else state,
        attempts=status.get("failed", 0),
        message=(failed or {}).get("message", ""),
    )


def _complaints(sets: tuple[StatefulSetView, ...], events: Iterable[Manifest]) -> Mapping[str, str]:
    # Only where pods are missing: an event outlives what it complains of by an hour.
    lacking = {s.ref.uid: s.name for s in sets if s.pods < s.replicas}
    found: dict[str, tuple[str, str]] = {}
    for event in events:
        name = lacking.get(event.get("involvedObject", {}).get("uid", ""))
        if name is None or event.get("reason") != "FailedCreate":
            continue
        time = event.get("lastTimestamp") or event.get("eventTime") or ""
        if time >= found.get(name, ("", ""))[0]:
            found[name] = (time, event.get("message", ""))
    return {name: message for name, (_, message) in found.items()}
