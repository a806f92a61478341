"""The Mooncake master's Deployment, with its metadata service: only where the store is on."""

from typing import Final

from pd_operator.api.deployment import PDDeployment
from pd_operator.api.store import AllocationStrategy
from pd_operator.api.values import duration_seconds
from pd_operator.build import names
from pd_operator.build.manifest import Manifest, child, child_labels, selector
from pd_operator.build.probes import liveness, readiness
from pd_operator.build.pull_secrets import pull_secrets
from pd_operator.build.security import restricted_container, restricted_pod
from pd_operator.build.store import cluster_id
from pd_operator.build.volumes import tmp_mount, tmp_volume
from pd_shared import labels, ports

_PRE_STOP_SECONDS: Final = 10
"""While the old master sleeps it serves its connections, and its successor becomes ready."""

_GRACE_SECONDS: Final = 30

_STRATEGIES: Final = {
    AllocationStrategy.RANDOM: "random",
    AllocationStrategy.FREE_RATIO_FIRST: "free_ratio_first",
    AllocationStrategy.LOCAL_FIRST: "local_first",
}


def mooncake_deployment(deployment: PDDeployment, image: str) -> Manifest:
    """One master, and never two: a second one would hand out memory of the same engines.

    With etcd there are several, one of which leads.
    """
    name = deployment.metadata.name
    ha = deployment.spec.mooncake.master.ha
    strategy: Manifest = (
        {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0}}
        if ha
        else {"type": "Recreate"}
    )
    return child(
        deployment,
        "apps/v1",
        "Deployment",
        names.mooncake(name),
        labels.MOONCAKE,
        spec={
            "replicas": ha.replicas if ha else 1,
            "revisionHistoryLimit": 2,
            "selector": {"matchLabels": selector(name, labels.MOONCAKE)},
            "strategy": strategy,
            "template": {
                "metadata": {"labels": child_labels(name, labels.MOONCAKE)},
                "spec": _pod(deployment, image),
            },
        },
    )


def _pod(deployment: PDDeployment, image: str) -> Manifest:
    name, ha = deployment.metadata.name, deployment.spec.mooncake.master.ha
    return {
        "serviceAccountName": names.engine(name),
        **pull_secrets(deployment),
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": restricted_pod(),
        "terminationGracePeriodSeconds": _GRACE_SECONDS,
        **({"topologySpreadConstraints": [_spread(name)]} if ha else {}),
        "containers": [_container(deployment, image)],
        "volumes": [tmp_volume()],
    }


def _container(deployment: PDDeployment, image: str) -> Manifest:
    master = deployment.spec.mooncake.master
    # A standby's RPC port is closed until it leads, so there readiness can only be that it runs.
    # Elsewhere /health, which answers 200 whatever the state, says less than the RPC port.
    ready: Manifest = (
        {"httpGet": {"path": "/health", "port": "admin"}}
        if master.ha
        else {"tcpSocket": {"port": "rpc"}}
    )
    return {
        "name": "master",
        "image": image,
        "command": ["mooncake_master"],
        "args": [
            f"--rpc_port={master.port}",
            f"--metrics_port={ports.MOONCAKE_ADMIN}",
            "--enable_http_metadata_server=true",
            f"--http_metadata_server_port={master.metadata_port}",
            "--enable_metadata_cleanup_on_timeout=true",
            *_ha_args(deployment),
            *_store_args(deployment),
            "--logtostderr",
        ],
        **({"env": [_pod_ip()]} if master.ha else {}),
        "ports": [
            {"name": "rpc", "containerPort": master.port, "protocol": "TCP"},
            {"name": "metadata", "containerPort": master.metadata_port, "protocol": "TCP"},
            {"name": "admin", "containerPort": ports.MOONCAKE_ADMIN, "protocol": "TCP"},
        ],
        "readinessProbe": readiness(ready),
        "livenessProbe": liveness({"httpGet": {"path": "/health", "port": "admin"}}),
        "lifecycle": {"preStop": {"sleep": {"seconds": _PRE_STOP_SECONDS}}},
        "resources": {
            "requests": {"cpu": "100m", "memory": "256Mi"},
            "limits": {"memory": "4Gi"},
        },
        "securityContext": restricted_container(),
        "volumeMounts": [
            tmp_mount(),
        ],
    }


def _ha_args(deployment: PDDeployment) -> tuple[str, ...]:
    ha = deployment.spec.mooncake.master.ha
    if ha is None:
        return ()
    return (
        "--enable_ha=true",
        f"--etcd_endpoints={';'.join(ha.etcd.endpoints)}",
        f"--cluster_id={cluster_id(deployment)}",
        # What etcd tells the clients when this master leads.
        "--rpc_address=$(POD_IP)",
    )


def _store_args(deployment: PDDeployment) -> tuple[str, ...]:
    store = deployment.spec.mooncake.store
    given = {
        "default_kv_lease_ttl": store.lease_ttl and _milliseconds(store.lease_ttl),
        "default_kv_soft_pin_ttl": store.soft_pin_ttl and _milliseconds(store.soft_pin_ttl),
        "eviction_high_watermark_ratio": _ratio(store.eviction_high_watermark),
        "eviction_ratio": _ratio(store.eviction_ratio),
        "allocation_strategy": store.allocation_strategy and _STRATEGIES[store.allocation_strategy],
        "enable_offload": "true" if store.pool and store.pool.offload else None,
    }
    return tuple(f"--{flag}={value}" for flag, value in given.items() if value is not None)


def _milliseconds(duration: str) -> str:
    return str(round(duration_seconds(duration) * 1000))


def _ratio(percent: int | None) -> str | None:
    return None if percent is None else str(percent / 100)


def _pod_ip() -> Manifest:
    return {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}


def _spread(name: str) -> Manifest:
    return {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": selector(name, labels.MOONCAKE)},
    }
