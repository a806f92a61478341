"""The policy that a PDDeployment asks for."""

from pd_operator.api.autoscaling import AutoscalingSpec, TierBounds
from pd_operator.api.values import duration_seconds
from pd_operator.autoscale.decision import Policy, TierPolicy


def policy_of(spec: AutoscalingSpec, window: float) -> Policy:
    """The policy in `spec.autoscaling`; `window` is the seconds that signals are taken over."""
    return Policy(
        mode=spec.mode,
        prefill=_tier(spec.slo.ttft, spec.prefill),
        decode=_tier(spec.slo.tpot, spec.decode),
        stabilization=duration_seconds(spec.scale_down.stabilization_window),
        window=window,
    )


def _tier(target: str | None, bounds: TierBounds) -> TierPolicy:
    seconds = None if target is None else duration_seconds(target)
    return TierPolicy(seconds, bounds.min, max(bounds.min, bounds.max))
