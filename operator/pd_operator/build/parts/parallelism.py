"""How one replica is spread over GPUs."""

from typing import Final

from pd_operator.api.engine import Device
from pd_operator.api.parallelism import ExpertParallelism
from pd_operator.build.hashing import canonical_json
from pd_operator.build.parts.part import Part, Tier

GPU: Final = "nvidia.com/gpu"


def part(tier: Tier) -> Part:
    """Ranks, and the GPUs for them.

    What is not asked for is not written: a rank's own default stands.
    """
    parallelism = tier.spec.parallelism
    cuda = tier.deployment.spec.engine.device is Device.CUDA
    args = [f"--tensor-parallel-size={parallelism.tensor}"]
    if parallelism.pipeline > 1:
        args.append(f"--pipeline-parallel-size={parallelism.pipeline}")
    if parallelism.data > 1:
        args.append(f"--data-parallel-size={parallelism.data}")
    return Part(
        args=(*args, *_expert(parallelism.expert)),
        devices={GPU: parallelism.ranks_per_pod} if cuda else {},
    )


def _expert(expert: ExpertParallelism) -> tuple[str, ...]:
    if not expert.enabled:
        return ()
    args = ["--enable-expert-parallel"]
    if expert.all2all_backend:
        args.append(f"--all2all-backend={expert.all2all_backend.value}")
    if expert.dbo.enabled:
        args.append("--enable-dbo")
        for phase, threshold in (
            ("decode", expert.dbo.decode_token_threshold),
            ("prefill", expert.dbo.prefill_token_threshold),
        ):
            if threshold is not None:
                args.append(f"--dbo-{phase}-token-threshold={threshold}")
    if expert.eplb.enabled:
        args.append("--enable-eplb")
        # The keys are vLLM's EPLBConfig, which are the fields' own names.
        config = expert.eplb.model_dump(exclude={"enabled"}, exclude_none=True)
        if config:
            args.append(f"--eplb-config={canonical_json(config)}")
    return tuple(args)
