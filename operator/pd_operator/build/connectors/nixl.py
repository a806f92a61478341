"""NixlConnector: the decoder reads KV out of the prefiller's memory, by NIXL over UCX."""

from typing import Final

from pd_operator.api.engine import Device
from pd_operator.api.kv_transfer import Protocol
from pd_operator.build.connectors.builder import Builder, abort_seconds, role
from pd_operator.build.devices import ucx_env
from pd_operator.build.manifest import Manifest
from pd_operator.build.parts.part import Part, Tier
from pd_shared import ports

_ON_GPU: Final = ",cuda_copy,cuda_ipc"
"""UCX's ways to and from a GPU's memory."""


def config(tier: Tier) -> Manifest:
    """The lease of KV that waits for its decoder is vLLM's, 30 s, where none is given."""
    spec = tier.deployment.spec
    extra: Manifest = {"backends": ["UCX"]}
    if spec.kv_transfer.abort_timeout:
        extra["kv_lease_duration"] = abort_seconds(tier, 0)
    if spec.kv_transfer.workers:
        extra["num_threads"] = spec.kv_transfer.workers
    result: Manifest = {
        "kv_connector": "NixlConnector",
        "kv_role": role(tier),
        "kv_connector_extra_config": extra,
    }
    if spec.engine.device is Device.CPU:
        result["kv_buffer_device"] = "cpu"
    return result


def part(tier: Tier) -> Part:
    """The side channel, by which engines shake hands, and UCX's transports."""
    return Part(
        env={"VLLM_NIXL_SIDE_CHANNEL_PORT": str(ports.NIXL), **_ucx(tier)},
        # vLLM's default is localhost, where no other pod reaches it.
        env_from={"VLLM_NIXL_SIDE_CHANNEL_HOST": {"fieldRef": {"fieldPath": "status.podIP"}}},
        ports=(("nixl", ports.NIXL),),
    )


def _ucx(tier: Tier) -> dict[str, str]:
    # A list without tcp, so that UCX fails where it finds no RDMA device, and one without RDMA.
    spec = tier.deployment.spec
    gpu = "" if spec.engine.device is Device.CPU else _ON_GPU
    if spec.kv_transfer.protocol is Protocol.TCP:
        return {"UCX_TLS": f"tcp{gpu}"}
    return {"UCX_TLS": f"rc{gpu}", **ucx_env(tier.deployment)}


BUILDER: Final = Builder(config, part)
