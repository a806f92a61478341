"""The pod of a tier: one vLLM engine with its probes, volumes, resources and placement."""

from typing import Final

from pd_operator.api.deployment import PDDeployment
from pd_operator.api.engine import Device, Protocol, RDMASpec
from pd_operator.build import engine, names, store
from pd_operator.build.manifest import Manifest, selector
from pd_operator.build.quantities import canonical
from pd_operator.build.security import (
    rdma_container,
    rdma_pod,
    restricted_container,
    restricted_pod,
)
from pd_operator.build.volumes import tmp_mount, tmp_volume
from pd_shared import labels, ports

GPU: Final = "nvidia.com/gpu"

PRE_STOP_SECONDS: Final = 5
"""In which everybody learns that the pod goes, while it still takes requests."""

_GRACE_SECONDS: Final = PRE_STOP_SECONDS + engine.SHUTDOWN_SECONDS + 35
_STARTUP_PERIOD_SECONDS: Final = 2
_STARTUP_SECONDS: Final = 3600
"""Weights of hundreds of GB take long to download and load; a crash is seen at once anyway."""

_RDMA_NODE_LABELS: Final = (
    "feature.node.kubernetes.io/rdma.available",
    "feature.node.kubernetes.io/rdma.capable",
)


def pod_spec(deployment: PDDeployment, component: str, cluster_domain: str) -> Manifest:
    """The pod spec of the tier `component`."""
    tier = engine.tier_spec(deployment, component)
    spec: Manifest = {
        "serviceAccountName": names.engine(deployment.metadata.name),
        "automountServiceAccountToken": False,
        # A Service named vllm would otherwise set VLLM_PORT, which stops the engine.
        "enableServiceLinks": False,
        "securityContext": rdma_pod() if _pins_memory(deployment) else restricted_pod(),
        "terminationGracePeriodSeconds": _GRACE_SECONDS,
        "affinity": _affinity(deployment, component),
        "containers": [_container(deployment, component)],
        "volumes": _volumes(deployment),
    }
    if deployment.spec.mooncake.store.enabled:
        wait = store.wait_for_master(deployment, cluster_domain)
        spec["initContainers"] = [{**wait, "securityContext": restricted_container()}]
    if tier.node_selector:
        spec["nodeSelector"] = dict(tier.node_selector)
    if tier.tolerations:
        spec["tolerations"] = [
            toleration.model_dump(by_alias=True, exclude_none=True, mode="json")
            for toleration in tier.tolerations
        ]
    return spec


def resources(deployment: PDDeployment, component: str) -> Manifest:
    """The engine container's resources: the user's, and the devices that the operator adds."""
    tier = engine.tier_spec(deployment, component)
    added: dict[str, str] = {}
    if deployment.spec.engine.device is Device.CUDA:
        added[GPU] = str(tier.parallelism.tensor)
    if deployment.spec.kv_transfer.protocol is Protocol.RDMA:
        rdma = deployment.spec.rdma or RDMASpec()
        added[rdma.resource] = str(rdma.count)
    result = {
        kind: {name: canonical(value) for name, value in sorted(given.items())} | added
        for kind, given in (
            ("requests", tier.resources.requests),
            ("limits", tier.resources.limits),
        )
    }
    return {kind: values for kind, values in result.items() if values}


def _container(deployment: PDDeployment, component: str) -> Manifest:
    port_list = [{"name": "http", "containerPort": ports.HTTP, "protocol": "TCP"}]
    if component == labels.PREFILLER:
        port_list.append({"name": "bootstrap", "containerPort": ports.BOOTSTRAP, "protocol": "TCP"})
    return {
        "name": "engine",
        "image": deployment.spec.engine.image,
        "command": list(engine.COMMAND),
        "args": engine.arguments(deployment, component),
        "env": engine.environment(deployment, component),
        "ports": port_list,
        "startupProbe": _probe(
            _STARTUP_PERIOD_SECONDS, _STARTUP_SECONDS // _STARTUP_PERIOD_SECONDS
        ),
        "readinessProbe": _probe(5, 3),
        # /health fails only when the engine is dead; a busy server may answer late.
        "livenessProbe": _probe(10, 6),
        "lifecycle": {"preStop": {"sleep": {"seconds": PRE_STOP_SECONDS}}},
        "resources": resources(deployment, component),
        "securityContext": (
            rdma_container() if _pins_memory(deployment) else restricted_container()
        ),
        "volumeMounts": _mounts(deployment),
    }


def _probe(period_seconds: int, failures: int) -> Manifest:
    return {
        "httpGet": {"path": "/health", "port": "http"},
        "periodSeconds": period_seconds,
        "timeoutSeconds": 10,
        "failureThreshold": failures,
    }


def _pins_memory(deployment: PDDeployment) -> bool:
    return deployment.spec.kv_transfer.protocol is Protocol.RDMA


def _mounts(deployment: PDDeployment) -> list[Manifest]:
    mounts: list[Manifest] = [tmp_mount(), {"name": "shm", "mountPath": "/dev/shm"}]  # noqa: S108 - the container's
    if deployment.spec.model.source.pvc:
        mounts.append({"name": "model", "mountPath": engine.MODEL_FOLDER, "readOnly": True})
    if deployment.spec.mooncake.store.enabled:
        mounts.append({"name": "mooncake", "mountPath": store.CONFIG_FOLDER, "readOnly": True})
    return mounts


def _volumes(deployment: PDDeployment) -> list[Manifest]:
    cuda = deployment.spec.engine.device is Device.CUDA
    volumes: list[Manifest] = [
        tmp_volume(),
        # Ranks talk through it; what is used counts towards the memory limit.
        {"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "8Gi" if cuda else "1Gi"}},
    ]
    pvc = deployment.spec.model.source.pvc
    if pvc:
        volumes.append(
            {
                "name": "model",
                "persistentVolumeClaim": {"claimName": pvc.claim_name, "readOnly": True},
            }
        )
    if deployment.spec.mooncake.store.enabled:
        config_map = {"name": names.engine(deployment.metadata.name)}
        volumes.append({"name": "mooncake", "configMap": config_map})
    return volumes


def _affinity(deployment: PDDeployment, component: str) -> Manifest:
    affinity: Manifest = {
        "podAntiAffinity": {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {
                    "weight": 100,
                    "podAffinityTerm": {
                        "topologyKey": "kubernetes.io/hostname",
                        "labelSelector": {
                            "matchLabels": selector(deployment.metadata.name, component)
                        },
                    },
                }
            ]
        }
    }
    if deployment.spec.kv_transfer.protocol is Protocol.RDMA:
        # Only the device plugin's resource is certain; the labels exist where node feature
        # discovery runs.
        affinity["nodeAffinity"] = {
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {
                    "weight": 50,
                    "preference": {
                        "matchExpressions": [{"key": key, "operator": "In", "values": ["true"]}]
                    },
                }
                for key in _RDMA_NODE_LABELS
            ]
        }
    return affinity
