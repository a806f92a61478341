"""`parallelism` of the tiers: what excludes or needs one another."""

from collections.abc import Iterator

from pd_operator.api.deployment import PDDeployment
from pd_operator.api.engine import Device
from pd_operator.api.parallelism import DBO_BACKENDS, ExpertParallelism, Parallelism
from pd_operator.checks.problem import Problem


def parallelism_problems(deployment: PDDeployment) -> Iterator[Problem]:
    """Problems of each tier by itself."""
    spec = deployment.spec
    for tier, placed in (("spec.prefill", spec.prefill), ("spec.decode", spec.decode)):
        field = f"{tier}.parallelism"
        if spec.engine.device is Device.CPU:
            yield from _cpu(field, placed.parallelism)
        yield from _expert(field, placed.parallelism)


def _cpu(field: str, parallelism: Parallelism) -> Iterator[Problem]:
    for name, given in (
        ("pipeline", parallelism.pipeline > 1),
        ("expert.enabled", parallelism.expert.enabled),
    ):
        if given:
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
