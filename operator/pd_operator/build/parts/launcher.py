"""Process 1 of engine pods: the launcher, which starts vLLM and passes signals on to it."""

from typing import Final

from pd_operator.build.launcher import COMMAND, launcher_mount, launcher_volume
from pd_operator.build.parts.part import Part, Tier

VLLM: Final = ("vllm", "serve")
"""Always said: what the image's entry point is does not matter."""


def part(tier: Tier) -> Part:
    """The container's command, and the launcher's files.

    vLLM by itself is deaf to SIGTERM while it loads: a pod that is deleted then would hold its
    GPUs for the whole grace period.
    """
    return Part(
        container={"command": [*COMMAND, "launch", "--", *VLLM]},
        volumes=(launcher_volume(tier.name),),
        mounts=(launcher_mount(),),
    )
