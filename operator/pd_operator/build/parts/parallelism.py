"""How one replica is spread over GPUs."""

from typing import Final

from pd_operator.api.engine import Device
from pd_operator.build.parts.part import Part, Tier

GPU: Final = "nvidia.com/gpu"


def part(tier: Tier) -> Part:
    """Ranks, and the GPUs for them."""
    tensor = tier.spec.parallelism.tensor
    cuda = tier.deployment.spec.engine.device is Device.CUDA
    return Part(
        args=(f"--tensor-parallel-size={tensor}",),
        devices={GPU: tensor} if cuda else {},
    )
