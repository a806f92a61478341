"""vLLM's `--kv-transfer-config`: how a tier takes part in the KV transfer."""

from typing import Final

from pd_operator.api.deployment import PDDeployment
from pd_operator.api.engine import Device
from pd_operator.build.hashing import canonical_json
from pd_operator.build.manifest import Manifest
from pd_shared import labels

CUDA_WORKERS: Final = 10
CPU_WORKERS: Final = 2
"""Threads of a prefiller that send KV."""


def kv_transfer_config(deployment: PDDeployment, component: str) -> str:
    """The JSON text for the tier `component`.

    KV that cannot be loaded is recomputed: the answer is right, only late, and the proxy's
    counters tell of it.
    """
    prefiller = component == labels.PREFILLER
    role = "kv_producer" if prefiller else "kv_consumer"
    config: Manifest = {
        "kv_connector": "MooncakeConnector",
        "kv_role": role,
        "kv_connector_extra_config": _direct(deployment),
    }
    if deployment.spec.mooncake.store.enabled:
        # Loads come from the first connector that has the blocks, saves go to all of them.
        store = {
            "kv_connector": "MooncakeStoreConnector",
            "kv_role": "kv_both" if prefiller else "kv_consumer",
        }
        config = {
            "kv_connector": "MultiConnector",
            "kv_role": role,
            "kv_connector_extra_config": {"connectors": [config, store]},
        }
    return canonical_json({**config, "kv_load_failure_policy": "recompute"})


def devices(deployment: PDDeployment) -> str:
    """The RDMA devices that Mooncake may use, by comma; empty for all that the pod sees."""
    rdma = deployment.spec.rdma
    return ",".join(rdma.devices) if rdma else ""


def _direct(deployment: PDDeployment) -> Manifest:
    cpu = deployment.spec.engine.device is Device.CPU
    extra: Manifest = {
        "mooncake_protocol": deployment.spec.kv_transfer.protocol.value,
        "num_workers": CPU_WORKERS if cpu else CUDA_WORKERS,
    }
    if devices(deployment):
        extra["device_name"] = devices(deployment)
    return extra
