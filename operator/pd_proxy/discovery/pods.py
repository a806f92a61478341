"""From a pod's manifest to a backend."""

from collections.abc import Mapping
from typing import Any, Final

from pd_proxy.backends import DRAINING, READY, UNREADY, Pod
from pd_proxy.config import Config
from pd_shared import labels, ports

_TIERS: Final = (labels.PREFILLER, labels.DECODER)
_CONTAINER: Final = "engine"


def read_pod(pod: Mapping[str, Any], config: Config) -> Pod | None:
    """The engine in this pod; None where it is none of this deployment's, or has no address yet.

    A label alone is not trusted: the pod must belong to a StatefulSet of this deployment's name
    and carry the deployment's UID.
    """
    metadata = pod.get("metadata") or {}
    status = pod.get("status") or {}
    pod_labels = metadata.get("labels") or {}
    annotations = metadata.get("annotations") or {}
    tier = pod_labels.get(labels.COMPONENT)
    address = status.get("podIP")
    if (
        tier not in _TIERS
        or not address
        or pod_labels.get(labels.DEPLOYMENT) != config.deployment
        or annotations.get(labels.DEPLOYMENT_UID) != config.deployment_uid
        or not _owned(metadata, f"{config.deployment}-{tier}-")
        or not _leads(metadata, annotations)
        or status.get("phase") in ("Succeeded", "Failed")
    ):
        return None
    incarnation = _incarnation(status)
    return Pod(
        uid=str(metadata.get("uid")),
        name=str(metadata.get("name")),
        tier=tier,
        pairing=str(pod_labels.get(labels.PAIRING, "")),
        host=str(address),
        port=ports.HTTP,
        bootstrap_port=ports.BOOTSTRAP,
        incarnation=incarnation,
        state=_state(metadata, annotations, status) if incarnation else UNREADY,
        connector=str(annotations.get(labels.CONNECTOR, labels.MOONCAKE_CONNECTOR)),
    )


def _owned(metadata: Mapping[str, Any], prefix: str) -> bool:
    return any(
        owner.get("controller") is True
        and owner.get("kind") == "StatefulSet"
        and str(owner.get("apiVersion", "")).startswith("apps/")
        and str(owner.get("name", "")).startswith(prefix)
        for owner in metadata.get("ownerReferences") or ()
    )


def _leads(metadata: Mapping[str, Any], annotations: Mapping[str, Any]) -> bool:
    """Whether this pod serves: of a group of pods the first one alone does."""
    size = labels.group_size(annotations)
    if size == 1:
        return True
    number = labels.ordinal(str(metadata.get("name", "")))
    return number is not None and number % size == 0


def _incarnation(status: Mapping[str, Any]) -> str:
    for container in status.get("containerStatuses") or ():
        if container.get("name") == _CONTAINER and "running" in (container.get("state") or {}):
            return f"{container.get('restartCount', 0)}/{container.get('containerID', '')}"
    return ""


def _state(
    metadata: Mapping[str, Any], annotations: Mapping[str, Any], status: Mapping[str, Any]
) -> str:
    if metadata.get("deletionTimestamp") or annotations.get(labels.DRAINING) == "true":
        return DRAINING
    ready = any(
        condition.get("type") == "Ready" and condition.get("status") == "True"
        for condition in status.get("conditions") or ()
    )
    return READY if ready else UNREADY
