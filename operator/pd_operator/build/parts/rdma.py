"""RDMA devices, the right to pin memory, and that Mooncake takes no other path."""

from typing import Final

from pd_operator.api.kv_transfer import Protocol
from pd_operator.api.rdma import RDMASpec
from pd_operator.build.devices import device_list
from pd_operator.build.parts.part import Part, Tier

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
        },
        devices={rdma.resource: rdma.count},
        capabilities=("IPC_LOCK",),
        # IPC_LOCK has no effect for a user other than root, so the user is not forced.
        image_user=True,
        # Only the device plugin's resource is certain; the labels exist where node feature
        # discovery runs.
        affinity={
            "nodeAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": tuple(
                    {
                        "weight": 50,
                        "preference": {
                            "matchExpressions": [{"key": key, "operator": "In", "values": ["true"]}]
                        },
                    }
                    for key in _NODE_LABELS
                )
            }
        },
    )
