"""`parallelism` of a tier: how one replica is spread over ranks, GPUs and nodes."""

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from pd_operator.api.base import ApiModel, Rule


class All2AllBackend(StrEnum):
    """How ranks exchange tokens with the experts on others: vLLM's `All2AllBackend`.

    Those that vLLM 0.32 and 0.33 take; names that they only alias or replace are left out.
    """

    ALLGATHER_REDUCESCATTER = "allgather_reducescatter"
    DEEPEP_HIGH_THROUGHPUT = "deepep_high_throughput"
    DEEPEP_LOW_LATENCY = "deepep_low_latency"
    DEEPEP_V2 = "deepep_v2"
    FLASHINFER_NVLINK_ONE_SIDED = "flashinfer_nvlink_one_sided"
    FLASHINFER_NVLINK_TWO_SIDED = "flashinfer_nvlink_two_sided"
    MOONEP = "moonep"
    MORI_HIGH_THROUGHPUT = "mori_high_throughput"
    MORI_LOW_LATENCY = "mori_low_latency"
    NIXL_EP = "nixl_ep"


class DualBatchOverlap(ApiModel):
    """Dual batch overlap (DBO): one half of a batch computes while the other exchanges tokens."""

    enabled: bool = False
    """Whether batches are split. Default: false. Becomes: `--enable-dbo`."""
    decode_token_threshold: Annotated[int, Field(ge=2, le=1048576)] | None = None
    """Tokens from which a batch of decodes alone is split. Only with enabled.

    Default: vLLM's, 32. Becomes: `--dbo-decode-token-threshold`.
    """
    prefill_token_threshold: Annotated[int, Field(ge=2, le=1048576)] | None = None
    """Tokens from which a batch with a prefill is split. Only with enabled.

    Default: vLLM's, 512. Becomes: `--dbo-prefill-token-threshold`.
    """


class ExpertBalance(ApiModel):
    """Expert parallel load balancing (EPLB): experts move to where the load is."""

    enabled: bool = False
    """Whether experts move. Default: false. Becomes: `--enable-eplb`."""
    window_size: Annotated[int, Field(ge=1, le=1000000)] | None = None
    """Steps over which the load of experts is recorded. Default: vLLM's, 1000.

    Becomes: `window_size` of `--eplb-config`.
    """
    step_interval: Annotated[int, Field(ge=1, le=1000000)] | None = None
    """Steps between two rearrangements. Default: vLLM's, 3000.

    Becomes: `step_interval` of `--eplb-config`.
    """
    num_redundant_experts: Annotated[int, Field(ge=0, le=4096)] | None = None
    """Copies of experts beside one of each, over all ranks. Default: vLLM's, 0.

    Becomes: `num_redundant_experts` of `--eplb-config`.
    """
    log_balancedness: bool | None = None
    """Log how even the load is at each step; costs communication. Default: vLLM's, false.

    Becomes: `log_balancedness` of `--eplb-config`.
    """


class ExpertParallelism(ApiModel):
    """Experts of a mixture-of-experts model are spread over the tensor x data ranks."""

    enabled: bool = False
    """Whether whole experts are on ranks, instead of a part of each. Default: false.

    Becomes: `--enable-expert-parallel`.
    """
    all2all_backend: Annotated[All2AllBackend | None, Field(alias="all2allBackend")] = None
    """How ranks exchange tokens. The image must have the kernels of all but the default.

    Default: vLLM's, allgather_reducescatter. Becomes: `--all2all-backend`.
    """
    dbo: DualBatchOverlap = DualBatchOverlap()
    """Needs all2allBackend deepep_low_latency, deepep_high_throughput or nixl_ep."""
    eplb: ExpertBalance = ExpertBalance()

    cel: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "(has(self.enabled) && self.enabled) || !has(self.all2allBackend)"
            " && !(has(self.dbo) && has(self.dbo.enabled) && self.dbo.enabled)"
            " && !(has(self.eplb) && has(self.eplb.enabled) && self.eplb.enabled)",
            "expert.enabled must be true where expert.all2allBackend is set or expert.dbo or"
            " expert.eplb is enabled",
        ),
        Rule(
            "!(has(self.dbo) && has(self.dbo.enabled) && self.dbo.enabled)"
            " || (has(self.all2allBackend) && self.all2allBackend in"
            " ['deepep_low_latency', 'deepep_high_throughput', 'nixl_ep'])",
            "expert.all2allBackend must be deepep_low_latency, deepep_high_throughput or nixl_ep"
            " where expert.dbo is enabled",
        ),
    )


DBO_BACKENDS: tuple[All2AllBackend, ...] = (
    All2AllBackend.DEEPEP_LOW_LATENCY,
    All2AllBackend.DEEPEP_HIGH_THROUGHPUT,
    All2AllBackend.NIXL_EP,
)
"""Those that vLLM lets dual batch overlap use (its config/vllm.py)."""


class Parallelism(ApiModel):
    """How one replica is spread over GPUs: tensor x pipeline x data ranks, a GPU each."""

    tensor: Annotated[int, Field(ge=1, le=64)] = 1
    """Ranks that share each layer. Default: 1. Becomes: `--tensor-parallel-size`."""
    pipeline: Annotated[int, Field(ge=1, le=64)] = 1
    """Stages of consecutive layers. Default: 1. Becomes: `--pipeline-parallel-size`."""
    data: Annotated[int, Field(ge=1, le=512)] = 1
    """Engines within a replica; one server shares the requests out between them.

    With a mixture-of-experts model they share the experts. Default: 1.
    Becomes: `--data-parallel-size`.
    """
    nodes: Annotated[int, Field(ge=1, le=64)] = 1
    """Pods of a replica, a node's GPUs each: the first of them leads, and serves for all.

    They start, fail and restart as one. Data parallel ranks are spread over them where data is
    more than 1, otherwise tensor and pipeline ranks. Default: 1.
    Becomes: so many times the replicas of the StatefulSet, and the flags that join the pods:
    `--data-parallel-address` and its like, or `--nnodes` and its like.
    """
    expert: ExpertParallelism = ExpertParallelism()
    """For mixture-of-experts models alone."""

    cel: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!(has(self.expert) && has(self.expert.enabled) && self.expert.enabled)"
            " || (has(self.tensor) && self.tensor > 1) || (has(self.data) && self.data > 1)",
            "tensor x data must be more than 1 where expert.enabled is true: experts are spread"
            " over these ranks",
        ),
        Rule(
            "!has(self.nodes) || (has(self.data) && self.data > 1"
            " ? self.data % self.nodes == 0"
            " : ((has(self.tensor) ? self.tensor : 1) * (has(self.pipeline) ? self.pipeline : 1))"
            " % self.nodes == 0)",
            "nodes must divide data, or tensor x pipeline where data is 1: every pod has as many"
            " ranks",
        ),
    )

    @property
    def ranks(self) -> int:
        """Ranks of a replica, which are its GPUs."""
        return self.tensor * self.pipeline * self.data

    @property
    def ranks_per_pod(self) -> int:
        """Ranks in each pod."""
        return self.ranks // self.nodes

    @property
    def data_per_pod(self) -> int:
        """Data parallel ranks in each pod: all, unless they are spread over the pods."""
        return self.data // self.nodes if self.data > 1 else 1

    @property
    def grouped(self) -> bool:
        """Whether a replica is more than one pod."""
        return self.nodes > 1
