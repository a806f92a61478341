"""How one replica is spread over GPUs."""

from typing import Final

from pd_operator.api.engine import Device
from pd_operator.api.parallelism import ExpertParallelism
from pd_operator.build.hashing import canonical_json
from pd_operator.build.parts.part import Part, Tier
from pd_shared import ports

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
    args += group_args(tier)
    return Part(
        args=(*args, *_expert(parallelism.expert)),
        devices={GPU: parallelism.ranks_per_pod} if cuda else {},
    )


def group_args(tier: Tier) -> tuple[str, ...]:
    """What every pod of a group is told, with the launcher's placeholders in braces."""
    parallelism = tier.spec.parallelism
    if not parallelism.grouped:
        return ()
    if parallelism.data > 1:
        return (
            f"--data-parallel-size-local={parallelism.data_per_pod}",
            f"--data-parallel-rpc-port={ports.DATA_PARALLEL_RPC}",
        )
    return (
        f"--nnodes={parallelism.nodes}",
        "--node-rank={node_rank}",
        f"--master-port={ports.GROUP_MASTER}",
    )


def leader_args(tier: Tier) -> tuple[str, ...]:
    """What the leader alone is told: it listens on its own address, for names cannot be bound."""
    return (f"{_address_flag(tier)}=$(VLLM_HOST_IP)",)


def worker_args(tier: Tier) -> tuple[str, ...]:
    """What the other pods are told: no server of their own, and where the leader is."""
    start = ("--data-parallel-start-rank={start_rank}",) if tier.spec.parallelism.data > 1 else ()
    return ("--headless", f"{_address_flag(tier)}={{leader_address}}", *start)


def _address_flag(tier: Tier) -> str:
    return "--data-parallel-address" if tier.spec.parallelism.data > 1 else "--master-addr"


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
