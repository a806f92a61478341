"""MooncakeConnector: the prefiller writes KV into the decoder's memory."""

from typing import Final

from pd_operator.api.engine import Device
from pd_operator.build.connectors.builder import Builder, abort_seconds, role
from pd_operator.build.devices import device_list
from pd_operator.build.manifest import Manifest
from pd_operator.build.parts.part import Part, Tier
from pd_shared import ports

CUDA_WORKERS: Final = 10
CPU_WORKERS: Final = 2
"""Threads of a prefiller that send KV."""

ABORT_REQUEST_SECONDS: Final = 120
"""How long a prefiller keeps KV that no decoder fetches."""


def config(tier: Tier) -> Manifest:
    """With the protocol and the devices of Mooncake's transfer engine."""
    spec = tier.deployment.spec
    default = CPU_WORKERS if spec.engine.device is Device.CPU else CUDA_WORKERS
    extra: Manifest = {
        "mooncake_protocol": spec.kv_transfer.protocol.value,
        "num_workers": spec.kv_transfer.workers or default,
    }
    if devices := device_list(tier.deployment):
        extra["device_name"] = devices
    return {
        "kv_connector": "MooncakeConnector",
        "kv_role": role(tier),
        "kv_connector_extra_config": extra,
    }


def part(tier: Tier) -> Part:
    """The bootstrap server, where decoders and the proxy learn of this engine: on senders."""
    env = {"VLLM_MOONCAKE_ABORT_REQUEST_TIMEOUT": str(abort_seconds(tier, ABORT_REQUEST_SECONDS))}
    sends = role(tier) != "kv_consumer"
    if sends:
        env["VLLM_MOONCAKE_BOOTSTRAP_PORT"] = str(ports.BOOTSTRAP)
    return Part(env=env, ports=(("bootstrap", ports.BOOTSTRAP),) if sends else ())


BUILDER: Final = Builder(config, part)
