"""The pool of Mooncake Store in mode Standalone: pods of `mooncake_client` that give memory."""

from typing import Final

from pd_operator.api.deployment import PDDeployment
from pd_operator.api.kv_transfer import Protocol
from pd_operator.api.rdma import RDMASpec
from pd_operator.api.store import OffloadSpec, PoolSpec
from pd_operator.api.values import quantity
from pd_operator.build import names
from pd_operator.build.devices import device_env, device_list
from pd_operator.build.manifest import Manifest, child, child_labels, selector
from pd_operator.build.probes import readiness
from pd_operator.build.pull_secrets import pull_secrets
from pd_operator.build.quantities import canonical, of_bytes
from pd_operator.build.security import engine_container, engine_pod, restricted_container
from pd_operator.build.store import P2P_HANDSHAKE, client_env, master_address, wait_for_master
from pd_operator.build.volumes import tmp_mount, tmp_volume
from pd_shared import labels, ports

_BESIDE: Final = 2**30
"""Memory of the process beside its segment."""

_OFFLOAD_BUFFER: Final = 2**30
"""Through which objects go to and from the disk; Mooncake's own default is 1.25 GiB."""

_DISK_SHARE: Final = 0.9
"""How much of the volume is filled: what the file system takes for itself is not known."""

_GRACE_SECONDS: Final = 30


def store_pool(deployment: PDDeployment, image: str, cluster_domain: str) -> Manifest:
    """One pod after the other goes: what the others hold stays known."""
    name = deployment.metadata.name
    pool = deployment.spec.mooncake.store.pool or PoolSpec()
    return child(
        deployment,
        "apps/v1",
        "Deployment",
        names.store_pool(name),
        labels.STORE_POOL,
        spec={
            "replicas": pool.replicas,
            "revisionHistoryLimit": 2,
            "selector": {"matchLabels": selector(name, labels.STORE_POOL)},
            # A new pod beside the old one would need its memory twice.
            "strategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxSurge": 0, "maxUnavailable": 1},
            },
            "template": {
                "metadata": {"labels": child_labels(name, labels.STORE_POOL)},
                "spec": _pod(deployment, pool, image, cluster_domain),
            },
        },
    )


def _pod(deployment: PDDeployment, pool: PoolSpec, image: str, cluster_domain: str) -> Manifest:
    rdma = deployment.spec.kv_transfer.protocol is Protocol.RDMA
    wait = wait_for_master(deployment, cluster_domain, image)
    result: Manifest = {
        "serviceAccountName": names.engine(deployment.metadata.name),
        **pull_secrets(deployment),
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": {**engine_pod(image_user=rdma), **_volume_group(pool, rdma=rdma)},
        "terminationGracePeriodSeconds": _GRACE_SECONDS,
        "initContainers": [{**wait, "securityContext": restricted_container()}],
        "containers": [_container(deployment, pool, image, cluster_domain)],
        "volumes": [tmp_volume(), *((_volume(pool.offload),) if pool.offload else ())],
    }
    if pool.node_selector:
        result["nodeSelector"] = dict(sorted(pool.node_selector.items()))
    if pool.tolerations:
        result["tolerations"] = [
            toleration.model_dump(by_alias=True, exclude_none=True, mode="json")
            for toleration in pool.tolerations
        ]
    return result


def _container(
    deployment: PDDeployment, pool: PoolSpec, image: str, cluster_domain: str
) -> Manifest:
    spec = deployment.spec
    rdma = spec.rdma or RDMASpec()
    on_rdma = spec.kv_transfer.protocol is Protocol.RDMA
    devices = device_list(deployment)
    segment = int(quantity(spec.mooncake.store.segment_size))
    memory = of_bytes(segment + _BESIDE + (_OFFLOAD_BUFFER if pool.offload else 0))
    asked = rdma.requested.items() if on_rdma else ()
    added = {name: str(count) for name, count in asked}
    return {
        "name": "store",
        "image": image,
        "command": ["mooncake_client"],
        "args": [
            "--host=$(POD_IP)",
            f"--port={ports.STORE_RPC}",
            f"--global_segment_size={segment}",
            "--local_buffer_size=0",
            f"--master_server_address={master_address(deployment, cluster_domain)}",
            f"--metadata_server={P2P_HANDSHAKE}",
            f"--protocol={spec.kv_transfer.protocol.value}",
            *((f"--device_names={devices}",) if devices else ()),
            *(("--enable_offload=true",) if pool.offload else ()),
            "--enable_http_server=true",
            f"--http_port={ports.STORE_HTTP}",
            "--logtostderr",
        ],
        "env": [
            {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
            *(
                {"name": name, "value": value}
                for name, value in sorted(
                    {
                        **client_env(deployment),
                        # Mooncake takes another path where it finds one, unless it is told.
                        **({"MC_FORCE_HCA": "1"} if on_rdma else {"MC_FORCE_TCP": "1"}),
                        **(device_env(deployment) if on_rdma else {}),
                        **(_offload_env(pool.offload) if pool.offload else {}),
                    }.items()
                )
            ),
        ],
        "ports": [
            {"name": "rpc", "containerPort": ports.STORE_RPC, "protocol": "TCP"},
            {"name": "admin", "containerPort": ports.STORE_HTTP, "protocol": "TCP"},
        ],
        "readinessProbe": readiness({"tcpSocket": {"port": "rpc"}}),
        "resources": {
            "requests": {"cpu": "100m", "memory": memory, **added},
            "limits": {"memory": memory, **added},
        },
        "securityContext": engine_container(("IPC_LOCK",) if on_rdma else (), image_user=on_rdma),
        "volumeMounts": [
            tmp_mount(),
            *(
                ({"name": "offload", "mountPath": pool.offload.path},) if pool.offload else ()
            ),
        ],
    }  # fmt: skip


def _offload_env(offload: OffloadSpec) -> dict[str, str]:
    return {
        "MOONCAKE_OFFLOAD_FILE_STORAGE_PATH": offload.path,
        "MOONCAKE_OFFLOAD_LOCAL_BUFFER_SIZE_BYTES": str(_OFFLOAD_BUFFER),
        "MOONCAKE_OFFLOAD_TOTAL_SIZE_LIMIT_BYTES": str(
            int(float(quantity(offload.size)) * _DISK_SHARE)
        ),
    }


def _volume(offload: OffloadSpec) -> Manifest:
    size = canonical(offload.size)
    if offload.storage_class is None:
        return {"name": "offload", "emptyDir": {"sizeLimit": size}}
    claim = {
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": offload.storage_class,
        "resources": {"requests": {"storage": size}},
    }
    return {"name": "offload", "ephemeral": {"volumeClaimTemplate": {"spec": claim}}}


def _volume_group(pool: PoolSpec, *, rdma: bool) -> Manifest:
    # A new file system belongs to root; the group may write.
    claims = pool.offload and pool.offload.storage_class
    return {"fsGroup": engine_pod(image_user=False)["runAsGroup"]} if claims and not rdma else {}
