"""`spec.autoscaling`: bounds and targets."""

from collections.abc import Iterator

from pd_operator.api.autoscaling import Mode
from pd_operator.api.deployment import PDDeployment
from pd_operator.checks.problem import Problem


def scaling_problems(deployment: PDDeployment) -> Iterator[Problem]:
    """Bounds that exclude one another or the replicas, and a missing target."""
    spec = deployment.spec
    policy = spec.autoscaling
    if policy.mode is not Mode.OFF and not (policy.slo.ttft or policy.slo.tpot):
        yield Problem(
            "TargetMissing",
            "spec.autoscaling.slo",
            "spec.autoscaling.slo.ttft or spec.autoscaling.slo.tpot must be set where"
            " spec.autoscaling.mode is Advise or Auto",
        )
    for tier, bounds, replicas in (
        ("prefill", policy.prefill, spec.prefill.replicas),
        ("decode", policy.decode, spec.decode.replicas),
    ):
        field = f"spec.autoscaling.{tier}"
        if bounds.min > bounds.max:
            yield Problem(
                "InvalidBounds",
                f"{field}.max",
                f"{field}.max is {bounds.max}; it must be at least {field}.min, {bounds.min}"
                " (default of both: 1)",
            )
        elif (
            policy.mode is Mode.AUTO
            and replicas is not None
            and not bounds.min <= replicas <= bounds.max
        ):
            yield Problem(
                "ReplicasOutOfBounds",
                f"spec.{tier}.replicas",
                f"spec.{tier}.replicas is {replicas}; where spec.autoscaling.mode is Auto it must"
                f" be within {field}: {bounds.min} to {bounds.max}",
            )
