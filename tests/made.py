"""Objects as the API server would return them, made for unit tests of the reconcile loop."""

import copy
from collections.abc import Iterable
from typing import Any

from pd_operator import kinds
from pd_operator.api.deployment import API_VERSION, KIND, PDDeployment, parse
from pd_operator.build import Defaults, Desired, desired
from pd_operator.kinds import kind_of
from pd_operator.observe import Manifest, Owner, Snapshot, observe
from pd_operator.plan import marked, with_replicas
from tests.kube import example

NAMESPACE = "ns"
NAME = "tiny"
UID = "uid-1"
OWNER = Owner(NAMESPACE, NAME, UID)
DEFAULTS = Defaults("proxy:1", "mooncake:1")


def raw(spec: Manifest | None = None, status: Manifest | None = None, **more: Any) -> Manifest:
    """A PDDeployment: the example `tiny-cpu`, with parts of its spec replaced."""
    metadata = {"name": NAME, "namespace": NAMESPACE, "uid": UID, "generation": 1, **more}
    merged = {**copy.deepcopy(example("tiny-cpu")["spec"]), **(spec or {})}
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "metadata": metadata,
        "spec": merged,
        "status": status or {},
    }


def deployment(
    spec: Manifest | None = None, status: Manifest | None = None, **more: Any
) -> PDDeployment:
    """The same, parsed."""
    return parse(raw(spec, status, **more))


def wanted(spec: Manifest | None = None) -> Desired:
    """Its children."""
    return desired(deployment(spec), DEFAULTS)


def live(manifest: Manifest, ready: int | None = None, **metadata: Any) -> Manifest:
    """A child as it is in the cluster; a workload with so many ready pods (None: all)."""
    made = copy.deepcopy(manifest)
    made["metadata"] |= {
        "uid": f"uid-of-{manifest['metadata']['name']}",
        "resourceVersion": "7",
        "generation": 1,
        "creationTimestamp": "2026-01-01T00:00:00Z",
        **metadata,
    }
    if made["kind"] in ("StatefulSet", "Deployment"):
        replicas = made["spec"].get("replicas", 1)
        count = replicas if ready is None else ready
        made["status"] = {
            "observedGeneration": made["metadata"]["generation"],
            "replicas": replicas,
            "readyReplicas": count,
            "updatedReplicas": replicas,
        }
    return made


def tiers(children: Desired, ready: int | None = None, replicas: int = 1) -> list[Manifest]:
    """Both live StatefulSets of a revision."""
    return [live(marked(with_replicas(tier, replicas)), ready) for tier in children.tiers]


def others(children: Desired) -> list[Manifest]:
    """All live children but the StatefulSets."""
    return [live(marked(manifest)) for manifest in children.objects]


def everything(children: Desired, ready: int | None = None, replicas: int = 1) -> list[Manifest]:
    """All live children."""
    return [*others(children), *tiers(children, ready, replicas)]


def snapshot(
    manifests: Iterable[Manifest], pods: Iterable[Manifest] = (), events: Iterable[Manifest] = ()
) -> Snapshot:
    """A snapshot of these objects."""
    listed: dict[kinds.Kind, list[Manifest]] = {kind: [] for kind in kinds.CHILDREN}
    for manifest in manifests:
        listed[kind_of(manifest)].append(manifest)
    return observe(OWNER, listed, pods, events)


def pod(owner: Manifest, number: int = 0, kind: str = "StatefulSet", **status: Any) -> Manifest:
    """A pod of a workload; not ready unless its status says so."""
    name = owner["metadata"]["name"]
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"{name}-{number}",
            "uid": f"uid-of-{name}-{number}",
            "labels": dict(owner["metadata"]["labels"]),
            "ownerReferences": [
                {
                    "apiVersion": "apps/v1",
                    "kind": kind,
                    "name": name if kind == "StatefulSet" else f"{name}-5c9f",
                    "uid": owner["metadata"]["uid"],
                    "controller": True,
                }
            ],
        },
        "status": status,
    }


def waiting(reason: str, **more: Any) -> Manifest:
    """A container's status that waits for a reason."""
    return {
        "name": "engine",
        "image": "engine:1",
        "restartCount": 0,
        "state": {"waiting": {"reason": reason, "message": "why"}},
        **more,
    }
