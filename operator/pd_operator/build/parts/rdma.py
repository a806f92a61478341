"""RDMA devices, the right to pin memory, and that Mooncake takes no other path."""

from typing import Final

from pd_operator.api.kv_transfer import Protocol
from pd_operator.api.rdma import RDMASpec
from pd_operator.build.devices import device_env, device_list
from pd_operator.build.manifest import Manifest
from pd_operator.build.parts.part import Part, Tier
from pd_shared import labels

NETWORKS: Final = "k8s.v1.cni.cncf.io/networks"
"""Annotation by which Multus adds networks to a pod."""

HOST_NETWORK: Final = {"hostNetwork": True, "dnsPolicy": "ClusterFirstWithHostNet"}
"""With the DNS of the cluster all the same."""

_NODE_LABELS: Final = (
    "feature.node.kubernetes.io/rdma.available",
    "feature.node.kubernetes.io/rdma.capable",
)


def part(tier: Tier) -> Part:
    """With protocol tcp only that Mooncake uses TCP; nothing in mode Colocated."""
    if tier.colocated:
        return Part()
    spec = tier.deployment.spec
    if spec.kv_transfer.protocol is not Protocol.RDMA:
        # Without it Mooncake takes RDMA wherever it finds a device.
        return Part(env={"MC_FORCE_TCP": "1"})
    rdma = spec.rdma or RDMASpec()
    devices = device_list(tier.deployment)
    return Part(
        env={
            # Without it Mooncake falls back to TCP where it finds no device.
            "MC_FORCE_HCA": "1",
            **({"MC_TE_FILTERS": devices} if devices else {}),
            **device_env(tier.deployment),
        },
        devices=rdma.requested,
        annotations={NETWORKS: ",".join(rdma.networks)} if rdma.networks else {},
        pod=HOST_NETWORK if rdma.host_network else {},
        capabilities=("IPC_LOCK",),
        # IPC_LOCK has no effect for a user other than root, so the user is not forced.
        image_user=True,
        # Only the device plugin's resource is certain; the labels exist where node feature
        # discovery runs.
        affinity={
            "nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": _capable()},
            **(_apart(tier) if rdma.host_network else {}),
        },
    )


def _capable() -> tuple[Manifest, ...]:
    return tuple(
        {
            "weight": 50,
            "preference": {
                "matchExpressions": [{"key": key, "operator": "In", "values": ["true"]}]
            },
        }
        for key in _NODE_LABELS
    )


def _apart(tier: Tier) -> dict[str, dict[str, tuple[Manifest, ...]]]:
    # All engines of the deployment have the same ports.
    engines = {
        "topologyKey": "kubernetes.io/hostname",
        "labelSelector": {
            "matchLabels": {labels.DEPLOYMENT: tier.name},
            "matchExpressions": [
                {
                    "key": labels.COMPONENT,
                    "operator": "In",
                    "values": [labels.DECODER, labels.PREFILLER],
                }
            ],
        },
    }
    return {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": (engines,)}}
