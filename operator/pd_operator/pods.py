"""What one pod's status says: ready, or what keeps it from being so; pure."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pd_operator.preflight import CONTAINER, PreflightResult, parse
from pd_shared import labels

_HARMLESS: Final = frozenset({"ContainerCreating", "PodInitializing"})
_PULL: Final = frozenset({"ImagePullBackOff", "ErrImagePull", "ErrImageNeverPull"})


@dataclass(frozen=True)
class Failure:
    """Why a pod is not ready and will not become so by waiting alone."""

    reason: str
    message: str


@dataclass(frozen=True)
class PodView:
    """A pod of a tier, of the proxy or of the Mooncake master."""

    name: str
    uid: str
    component: str
    revision: str
    ip: str
    ready: bool
    terminating: bool
    restarts: int
    failure: Failure | None = None
    owner: str = ""
    """Name of its controller."""
    node: str = ""
    preflight: PreflightResult | None = None
    """What its RDMA preflight found last."""
    ended: bool = False
    """Whether it failed as a whole, and nothing of it runs any more."""
    created: str = ""


def view(pod: Mapping[str, Any]) -> PodView:
    """A pod as read from the API server."""
    metadata, status = pod["metadata"], pod.get("status", {})
    own = metadata.get("labels") or {}
    conditions = {c["type"]: c for c in status.get("conditions", ())}
    ready = conditions.get("Ready", {}).get("status") == "True"
    references = metadata.get("ownerReferences") or ()
    return PodView(
        name=metadata["name"],
        uid=metadata.get("uid", ""),
        component=own.get(labels.COMPONENT, ""),
        revision=own.get(labels.REVISION, ""),
        ip=status.get("podIP", ""),
        ready=ready,
        terminating="deletionTimestamp" in metadata,
        restarts=sum(c.get("restartCount", 0) for c in _containers(status)),
        failure=None if ready else _failure(status, conditions),
        node=pod.get("spec", {}).get("nodeName", ""),
        preflight=_preflight(status),
        ended=status.get("phase") == "Failed",
        created=metadata.get("creationTimestamp", ""),
        owner=next((r["name"] for r in references if r.get("controller")), ""),
    )


def _preflight(status: Mapping[str, Any]) -> PreflightResult | None:
    for container in status.get("initContainerStatuses") or ():
        if container["name"] == CONTAINER:
            for state in (container.get("state"), container.get("lastState")):
                ended = (state or {}).get("terminated")
                if ended is not None:
                    return parse(ended.get("message") or "")
    return None


def _containers(status: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    return [
        *(status.get("initContainerStatuses") or ()),
        *(status.get("containerStatuses") or ()),
    ]


def _failure(
    status: Mapping[str, Any], conditions: Mapping[str, Mapping[str, Any]]
) -> Failure | None:
    scheduled = conditions.get("PodScheduled", {})
    if scheduled.get("status") == "False" and scheduled.get("reason") == "Unschedulable":
        return Failure("Unschedulable", scheduled.get("message", ""))
    for container in _containers(status):
        found = _container_failure(container)
        if found is not None:
            return found
    if status.get("phase") == "Failed":
        return Failure(status.get("reason") or "PodFailed", status.get("message", ""))
    return None


def _container_failure(container: Mapping[str, Any]) -> Failure | None:
    state = container.get("state") or {}
    waiting = (state.get("waiting") or {}).get("reason", "")
    last = (container.get("lastState") or {}).get("terminated")
    ended = state.get("terminated") or last
    # A crash loop goes round terminated, waiting and running: told as one thing, or the
    # condition would flip with every turn. The first restart is given the benefit of the doubt.
    restarts = container.get("restartCount", 0)
    turning = "terminated" in state or waiting == "CrashLoopBackOff" or restarts > 1
    if ended is not None and ended.get("exitCode", 0) != 0 and turning:
        found = parse(ended.get("message") or "") if container["name"] == CONTAINER else None
        if found is not None:
            return Failure(found.reason, found.told)
        return Failure("CrashLoopBackOff", _ended(container["name"], ended))
    if waiting in _PULL:
        # The kubelet's own text alternates between the error and the back-off.
        return Failure(
            "ImagePullBackOff",
            f"image {container.get('image', '')} cannot be pulled: check its name, its tag"
            " and the pull secrets",
        )
    if waiting and waiting not in _HARMLESS:
        return Failure(waiting, str(state["waiting"].get("message", "")))
    return None


def _ended(container: str, terminated: Mapping[str, Any]) -> str:
    text = f"container {container} ended with exit code {terminated.get('exitCode', '?')}"
    reason = terminated.get("reason")
    if reason and reason not in ("Error", "Completed"):
        text += f" ({reason})"
    said = (terminated.get("message") or "").strip().splitlines()
    return f"{text}: {said[-1]}" if said else text


def ready_groups(pods: Iterable[PodView], size: int) -> int:
    """Replicas of `size` consecutive pods of one StatefulSet whose pods are all ready."""
    found: dict[int, int] = {}
    for pod in pods:
        number = labels.ordinal(pod.name)
        if number is not None and pod.ready and not pod.terminating:
            group = number // size
            found[group] = found.get(group, 0) + 1
    return sum(1 for members in found.values() if members == size)
