"""What a connector's module gives, and what all of them have in common."""

from collections.abc import Callable
from dataclasses import dataclass

from pd_operator.api.values import duration_seconds
from pd_operator.build.manifest import Manifest
from pd_operator.build.parts.part import Part, Tier


def nothing(tier: Tier) -> Part:
    """A connector that needs its configuration alone."""
    del tier
    return Part()


@dataclass(frozen=True)
class Builder:
    """One connector of vLLM."""

    config: Callable[[Tier], Manifest]
    """vLLM's KVTransferConfig for a tier, without the failure policy."""
    part: Callable[[Tier], Part] = nothing
    """Environment, ports, volumes of the engine pods."""
    store_file: bool = False
    """Whether it reads the file of MOONCAKE_CONFIG_PATH."""


def role(tier: Tier) -> str:
    """vLLM's `kv_role`."""
    if tier.deployment.spec.kv_transfer.symmetric:
        return "kv_both"
    return "kv_producer" if tier.is_prefiller else "kv_consumer"


def abort_seconds(tier: Tier, default: int) -> int:
    """How long a prefiller keeps KV that no decoder fetches."""
    asked = tier.deployment.spec.kv_transfer.abort_timeout
    return int(duration_seconds(asked)) if asked else default
