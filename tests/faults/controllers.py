"""The StatefulSet and Deployment controllers and the kubelet, for the API server in memory."""

from collections.abc import Callable
from typing import Any

from tests.faults.server import Manifest, Server

Ready = Callable[[Manifest], bool]


def settle(server: Server, ready: Ready = lambda _: True) -> None:
    """Bring pods and the workloads' status to where the controllers would, in one step."""
    server.collect()
    for workload in [*server.of("StatefulSet"), *server.of("Deployment")]:
        pods = _pods(server, workload, ready)
        count = sum(pod["status"]["conditions"][0]["status"] == "True" for pod in pods)
        _status(server, workload, len(pods), count)


def _status(server: Server, workload: Manifest, pods: int, ready: int) -> None:
    status = {
        "observedGeneration": workload["metadata"]["generation"],
        "replicas": pods,
        "readyReplicas": ready,
        "updatedReplicas": pods,
    }
    if workload.get("status") != status:
        server.put({**workload, "status": status})


def _pods(server: Server, workload: Manifest, ready: Ready) -> list[Manifest]:
    metadata = workload["metadata"]
    owner, prefix = workload, metadata["name"]
    if workload["kind"] == "Deployment":
        prefix = f"{prefix}-5c9f"
        owner = _owned(server, workload, "ReplicaSet", "apps/v1", prefix, {})
    wanted = workload["spec"].get("replicas", 1)
    template = workload["spec"]["template"]
    pods = []
    for number in range(wanted):
        pod = _owned(
            server, owner, "Pod", "v1", f"{prefix}-{number}", template["metadata"]["labels"]
        )
        state = "True" if ready(pod) else "False"
        status = {"podIP": f"10.0.0.{number}", "conditions": [{"type": "Ready", "status": state}]}
        if pod.get("status") != status:
            pod = server.put({**pod, "status": status})
        pods.append(pod)
    for pod in list(server.of("Pod")):
        controller = pod["metadata"]["ownerReferences"][0]["uid"]
        if controller == owner["metadata"]["uid"] and pod not in pods:
            server.remove(("Pod", metadata["namespace"], pod["metadata"]["name"]))
    return pods


def _owned(
    server: Server,
    owner: Manifest,
    kind: str,
    api_version: str,
    name: str,
    labels: dict[str, Any],
) -> Manifest:
    namespace = owner["metadata"]["namespace"]
    found = server.objects.get((kind, namespace, name))
    if found is not None:
        return found
    reference = {
        "apiVersion": owner["apiVersion"],
        "kind": owner["kind"],
        "name": owner["metadata"]["name"],
        "uid": owner["metadata"]["uid"],
        "controller": True,
    }
    metadata = {
        "name": name,
        "namespace": namespace,
        "labels": labels,
        "ownerReferences": [reference],
    }
    return server.put({"apiVersion": api_version, "kind": kind, "metadata": metadata})
