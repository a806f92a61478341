"""An init container that says whether RDMA can work in the pod, before the engine starts."""

from typing import Final

from pd_operator.api.deployment import PDDeploymentSpec
from pd_operator.api.kv_transfer import DIRECT, Connector, Protocol
from pd_operator.api.rdma import Fallback, MemoryRegistration, RDMASpec
from pd_operator.api.values import quantity
from pd_operator.build import names
from pd_operator.build.launcher import COMMAND, launcher_mount
from pd_operator.build.parts.part import Part, Tier
from pd_operator.build.security import engine_container
from pd_operator.preflight import CONTAINER
from pd_shared import labels, ports

_FOLDER: Final = "/run/pd-preflight"
ENVIRONMENT: Final = f"{_FOLDER}/environment"
"""What the preflight tells the launcher: devices, and whether TCP must do."""

_MOUNT: Final = {"name": "preflight", "mountPath": _FOLDER}


def checked(spec: PDDeploymentSpec) -> bool:
    """Whether engine pods have a preflight."""
    if spec.colocated or spec.kv_transfer.protocol is not Protocol.RDMA:
        return False
    return (spec.rdma or RDMASpec()).preflight.enabled


def part(tier: Tier) -> Part:
    """Nothing without RDMA, or where it is turned off."""
    spec = tier.deployment.spec
    if not checked(spec):
        return Part()
    rdma = spec.rdma or RDMASpec()
    devices = {name: str(count) for name, count in rdma.requested.items()}
    return Part(
        volumes=({"name": "preflight", "emptyDir": {}},),
        mounts=(dict(_MOUNT),),
        init_containers=(
            {
                "name": CONTAINER,
                "image": tier.image,
                "command": [*COMMAND, "preflight", *_arguments(rdma), *_peer(tier)],
                # What init containers ask for does not add up with the engine's.
                "resources": {
                    "requests": {"cpu": "10m", "memory": "32Mi", **devices},
                    "limits": {"memory": "128Mi", **devices},
                },
                "securityContext": engine_container(("IPC_LOCK",), image_user=True),
                "volumeMounts": [launcher_mount(), dict(_MOUNT)],
            },
        ),
    )


def _arguments(rdma: RDMASpec) -> list[str]:
    preflight = rdma.preflight
    optional = {
        "devices": ",".join(rdma.devices) or None,
        "link-layer": preflight.link_layer.value if preflight.link_layer else None,
        "gid-index": rdma.gid_index,
        "mtu": rdma.mtu,
        "memlock-bytes": int(quantity(preflight.min_memlock)) if preflight.min_memlock else None,
        "fallback": "TCP" if rdma.fallback is Fallback.TCP else None,
    }
    peermem = rdma.memory_registration is MemoryRegistration.PEERMEM
    return [
        *(f"--{name}={value}" for name, value in optional.items() if value is not None),
        *(["--peermem"] if peermem else []),
        f"--environment={ENVIRONMENT}",
    ]


def _peer(tier: Tier) -> list[str]:
    """The other tier, where engines talk to one another: by its headless Service, over TCP.

    Engines agree on each transfer over TCP, whatever carries the KV.
    """
    connector = tier.deployment.spec.connector
    if connector not in DIRECT:
        return []
    other = labels.DECODER if tier.is_prefiller else labels.PREFILLER
    port = ports.HTTP
    if not tier.is_prefiller:
        port = ports.NIXL if connector is Connector.NIXL else ports.BOOTSTRAP
    namespace = tier.deployment.metadata.namespace
    host = names.service_host(names.tier(tier.name, other), namespace, tier.cluster_domain)
    return [f"--peer={host}:{port}"]
