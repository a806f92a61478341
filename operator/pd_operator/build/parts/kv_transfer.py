"""How the tier takes part in the KV transfer: vLLM's `--kv-transfer-config` and its environment."""

from typing import Final

from pd_operator.api.engine import Device
from pd_operator.build.devices import device_list
from pd_operator.build.hashing import canonical_json
from pd_operator.build.manifest import Manifest
from pd_operator.build.parts.part import Part, Tier
from pd_shared import ports

CUDA_WORKERS: Final = 10
CPU_WORKERS: Final = 2
"""Threads of a prefiller that send KV."""

ABORT_REQUEST_SECONDS: Final = 120
"""How long a prefiller keeps KV that no decoder fetches."""


def part(tier: Tier) -> Part:
    """The connector."""
    spec = tier.deployment.spec
    env = {"VLLM_MOONCAKE_ABORT_REQUEST_TIMEOUT": str(ABORT_REQUEST_SECONDS)}
    if tier.is_prefiller:
        env["VLLM_MOONCAKE_BOOTSTRAP_PORT"] = str(ports.BOOTSTRAP)
    return Part(
        args=(f"--kv-transfer-config={kv_transfer_config(tier)}",),
        env=env,
        ports=(("bootstrap", ports.BOOTSTRAP),) if tier.is_prefiller else (),
        pairing={
            "connector": spec.kv_transfer.connector.value,
            "protocol": spec.kv_transfer.protocol.value,
        },
    )


def kv_transfer_config(tier: Tier) -> str:
    """The JSON text.

    KV that cannot be loaded is recomputed: the answer is right, only late, and the proxy's
    counters tell of it.
    """
    role = "kv_producer" if tier.is_prefiller else "kv_consumer"
    config: Manifest = {
        "kv_connector": "MooncakeConnector",
        "kv_role": role,
        "kv_connector_extra_config": _direct(tier),
    }
    if tier.deployment.spec.mooncake.store.enabled:
        # Loads come from the first connector that has the blocks, saves go to all of them.
        store = {
            "kv_connector": "MooncakeStoreConnector",
            "kv_role": "kv_both" if tier.is_prefiller else "kv_consumer",
        }
        config = {
            "kv_connector": "MultiConnector",
            "kv_role": role,
            "kv_connector_extra_config": {"connectors": [config, store]},
        }
    return canonical_json({**config, "kv_load_failure_policy": "recompute"})


def _direct(tier: Tier) -> Manifest:
    spec = tier.deployment.spec
    cpu = spec.engine.device is Device.CPU
    extra: Manifest = {
        "mooncake_protocol": spec.kv_transfer.protocol.value,
        "num_workers": CPU_WORKERS if cpu else CUDA_WORKERS,
    }
    if devices := device_list(tier.deployment):
        extra["device_name"] = devices
    return extra
