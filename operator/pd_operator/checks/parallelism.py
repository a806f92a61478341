"""`parallelism` of the tiers: what excludes or needs one another."""

from collections.abc import Iterator
from typing import Final

from pd_operator.api.deployment import PDDeployment
from pd_operator.api.engine import Device
from pd_operator.api.kv_transfer import Connector
from pd_operator.api.parallelism import DBO_BACKENDS, ExpertParallelism, Parallelism
from pd_operator.checks.flags import TIERS, given
from pd_operator.checks.problem import Problem

_API_SERVERS: Final = ("--api-server-count", "-asc")


def parallelism_problems(deployment: PDDeployment) -> Iterator[Problem]:
    """Problems of each tier by itself."""
    spec = deployment.spec
    yield from _api_servers(deployment)
    for tier, placed in (("spec.prefill", spec.prefill), ("spec.decode", spec.decode)):
        field = f"{tier}.parallelism"
        if spec.engine.device is Device.CPU:
            yield from _cpu(field, placed.parallelism)
        yield from _expert(field, placed.parallelism)
        yield from _nodes(field, placed.parallelism)
        if placed.parallelism.grouped and spec.connector is Connector.NIXL:
            yield Problem(
                "GroupsNeedConnector",
                f"{field}.nodes",
                f"{field}.nodes must be 1 where spec.kvTransfer.connector is Nixl: its decoders"
                " reach the ranks of one pod alone; take Mooncake",
            )


def _api_servers(deployment: PDDeployment) -> Iterator[Problem]:
    spec = deployment.spec
    grouped = [tier for tier in TIERS if getattr(spec, tier).parallelism.grouped]
    for one in given(spec, *_API_SERVERS, tiers=grouped):
        yield Problem(
            "ArgumentNotAllowed",
            one.field,
            f"{one.field} must not set {one.name} where parallelism.nodes is more than 1: only"
            " leaders have API servers, and vLLM stops at the start of the other pods",
        )


def _nodes(field: str, parallelism: Parallelism) -> Iterator[Problem]:
    if parallelism.data > 1:
        divided, what = parallelism.data, "data"
    else:
        divided, what = parallelism.ranks, "tensor x pipeline"
    if divided % parallelism.nodes:
        yield Problem(
            "UnevenNodes",
            f"{field}.nodes",
            f"{field}.nodes is {parallelism.nodes}; it must divide {what} of {field}, {divided}:"
            " every pod has as many ranks",
        )


def _cpu(field: str, parallelism: Parallelism) -> Iterator[Problem]:
    for name, asked in (
        ("pipeline", parallelism.pipeline > 1),
        ("expert.enabled", parallelism.expert.enabled),
    ):
        if asked:
            yield Problem(
                "ParallelismNeedsGPUs",
                f"{field}.{name}",
                f"{field}.{name} is not allowed where spec.engine.device is cpu; engines on CPUs"
                " are spread by tensor and data alone",
            )


def _expert(field: str, parallelism: Parallelism) -> Iterator[Problem]:
    expert = parallelism.expert
    if not expert.enabled:
        for name in _needing_experts(expert):
            yield Problem(
                "ExpertParallelismNeeded",
                f"{field}.expert.{name}",
                f"{field}.expert.{name} needs {field}.expert.enabled; set it to true",
            )
    elif parallelism.tensor * parallelism.data == 1:
        yield Problem(
            "ExpertParallelismNeedsRanks",
            f"{field}.expert.enabled",
            f"{field}.expert.enabled needs tensor x data of more than 1 in {field}: experts are"
            " spread over these ranks",
        )
    if expert.dbo.enabled and expert.all2all_backend not in DBO_BACKENDS:
        allowed = ", ".join(backend.value for backend in DBO_BACKENDS)
        yield Problem(
            "DualBatchOverlapNeedsBackend",
            f"{field}.expert.all2allBackend",
            f"{field}.expert.all2allBackend must be one of {allowed} where"
            f" {field}.expert.dbo.enabled is true: vLLM stops at its start with any other",
        )


def _needing_experts(expert: ExpertParallelism) -> Iterator[str]:
    if expert.all2all_backend:
        yield "all2allBackend"
    if expert.dbo.enabled:
        yield "dbo.enabled"
    if expert.eplb.enabled:
        yield "eplb.enabled"
