"""The policy that a PDDeployment asks for."""

from pd_operator.api.autoscaling import AutoscalingSpec, TierBounds
from pd_operator.api.values import duration_seconds
from pd_operator.autoscale.decision import Policy, TierPolicy


def policy_of(spec: AutoscalingSpec, window: float, *, colocated: bool = False) -> Policy:
    """The policy in `spec.autoscaling`; `window` is the seconds that signals are taken over.

    `colocated` where the decode tier does both: its bounds hold for both targets.
    """
    return Policy(
        mode=spec.mode,
        prefill=_tier(spec.slo.ttft, None, spec.decode if colocated else spec.prefill),
        decode=_tier(spec.slo.tpot, spec.slo.ttft, spec.decode),
        stabilization=duration_seconds(spec.scale_down.stabilization_window),
        window=window,
        colocated=colocated,
    )


def _tier(target: str | None, handoff: str | None, bounds: TierBounds) -> TierPolicy:
    return TierPolicy(
        target=_seconds(target),
        min=bounds.min,
        max=max(bounds.min, bounds.max),
        handoff_target=_seconds(handoff),
    )


def _seconds(duration: str | None) -> float | None:
    return None if duration is None else duration_seconds(duration)
