"""The engine as a server: image, port, drain, and what every engine needs in its environment."""

from typing import Final

from pd_operator.build.parts.part import Part, Tier
from pd_operator.build.quantities import canonical
from pd_operator.build.volumes import TMP, tmp_mount, tmp_volume
from pd_shared import ports

SHUTDOWN_SECONDS: Final = 120
"""How long vLLM lets running requests end after SIGTERM."""


def part(tier: Tier) -> Part:
    """What does not depend on any field but the engine's image."""
    engine = tier.deployment.spec.engine
    cuda = engine.device.value == "cuda"
    shm = {
        "medium": "Memory",
        "sizeLimit": canonical(tier.spec.shm_size or ("8Gi" if cuda else "1Gi")),
    }
    return Part(
        args=(
            # The Mooncake bootstrap server listens on IPv4 alone, so the engine does too.
            "--host=0.0.0.0",
            f"--port={ports.HTTP}",
            f"--shutdown-timeout={SHUTDOWN_SECONDS}",
        ),
        # The address that Mooncake tells its peers; it must be known before anything else.
        first_env={"VLLM_HOST_IP": {"fieldRef": {"fieldPath": "status.podIP"}}},
        env={
            "HOME": TMP,
            # A numeric user has no name in the image; libraries that ask for one fail without.
            "USER": "engine",
            "PYTHONHASHSEED": "0",
            "VLLM_NO_USAGE_STATS": "1",
            "DO_NOT_TRACK": "1",
        },
        ports=(("http", ports.HTTP),),
        # Ranks talk through shared memory; what is used counts towards the memory limit.
        volumes=(tmp_volume(), {"name": "shm", "emptyDir": shm}),
        mounts=(tmp_mount(), {"name": "shm", "mountPath": "/dev/shm"}),  # noqa: S108 - the container's
        container={"image": tier.image},
        pairing={
            "image": _images(tier),
            "version": engine.version,
            "device": engine.device.value,
        },
    )


def _images(tier: Tier) -> str | list[str]:
    """Both tiers' images; one where they are the same."""
    spec = tier.deployment.spec
    both = [placed.image or spec.engine.image for placed in (spec.prefill, spec.decode)]
    return both[0] if both[0] == both[1] else both
