"""Which decision and which numbers are shown: steady numbers must not cause writes."""

from dataclasses import dataclass, replace
from typing import Final

from pd_operator.autoscale.decision import Decision, TierDecision
from pd_operator.autoscale.track import Traffic

CALM_SECONDS: Final = 60.0
"""A change of mere words or numbers is shown at most this often."""


@dataclass(frozen=True)
class ShownTier:
    """A tier's decision as shown, and since when."""

    decision: TierDecision
    since: float


@dataclass(frozen=True)
class Shown:
    """What is shown of one PDDeployment; decisions are None where autoscaling is off."""

    prefill: ShownTier | None
    decode: ShownTier | None
    traffic: Traffic
    traffic_since: float


def show(before: Shown | None, decision: Decision | None, traffic: Traffic, now: float) -> Shown:
    """What to show now: equal to `before` unless something happened that is worth a write.

    Other replicas are shown at once; another reason after CALM_SECONDS, so that the reason of a
    change can be read; numbers alone never. The traffic is renewed after CALM_SECONDS while
    there is some, and at once when the first comes.
    """
    if before is None:
        before = Shown(None, None, traffic, now)
    elif _newer(before.traffic, traffic, now - before.traffic_since):
        before = replace(before, traffic=traffic, traffic_since=now)
    return replace(
        before,
        prefill=_tier(before.prefill, decision.prefill if decision else None, now),
        decode=_tier(before.decode, decision.decode if decision else None, now),
    )


def _tier(before: ShownTier | None, decision: TierDecision | None, now: float) -> ShownTier | None:
    if decision is None:
        return None
    if before is None or decision.desired != before.decision.desired:
        return ShownTier(decision, now)
    if decision.reason is before.decision.reason or now - before.since < CALM_SECONDS:
        return before
    return ShownTier(decision, now)


def _newer(before: Traffic, after: Traffic, age: float) -> bool:
    first = (
        (after.requests > 0 and before.requests == 0)
        or (after.proof.expected > 0 and before.proof.expected == 0)
        or (after.proof.settled_expected > 0 and before.proof.settled_expected == 0)
        or (after.proof.broken and not before.proof.broken)
        or (after.fresh and not before.fresh)
    )
    if first:
        return True
    return age >= CALM_SECONDS and (
        after.requests > 0 or before.requests > 0 or after.fresh != before.fresh
    )
