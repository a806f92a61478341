"""One tier's case at one moment: all that its decision rests on but the state."""

from dataclasses import dataclass
from typing import Final

from pd_operator.autoscale.decision import Policy, Reason, TierPolicy, TierView


@dataclass(frozen=True)
class Words:
    """What a tier's things are called, and the reason for growing by its latency."""

    pods: str
    latency: str
    load: str
    above: Reason
    serial: bool
    """Whether a replica serves one request after the other, so that queueing theory applies."""


PREFILL: Final = Words("prefillers", "TTFT p95", "prompt tokens/s", Reason.TTFT_ABOVE_TARGET, True)
FIRST_TOKEN: Final = Words(
    "decoders", "TTFT p95", "prompt tokens/s", Reason.TTFT_ABOVE_TARGET, False
)
"""Mode Colocated: the decode tier reads the prompts too, many at once."""
DECODE: Final = Words("decoders", "TPOT p95", "requests in flight", Reason.TPOT_ABOVE_TARGET, False)


@dataclass(frozen=True)
class Miss:
    """A latency as a multiple of its target (up to 1: it is met), and the reason if it is more."""

    ratio: float
    reason: Reason


@dataclass(frozen=True)
class Case:
    """A tier with its words, its bounds, the policy of both, and a monotonic clock's seconds."""

    words: Words
    view: TierView
    tier: TierPolicy
    policy: Policy
    now: float

    @property
    def idle(self) -> bool:
        """Whether nothing arrived all through the window and nothing is in flight."""
        signals = self.view.signals
        return signals.load.value == 0 and signals.in_flight.value == 0

    @property
    def miss(self) -> Miss:
        """By how much the tier misses its target, or its part of the other tier's."""
        signals, tier, reason = self.view.signals, self.tier, self.words.above
        own = handoff = 0.0
        if signals.latency.value is not None and tier.target is not None:
            own = signals.latency.value / tier.target
        if signals.handoff is not None and tier.handoff_target is not None:
            handoff = signals.handoff / (self.policy.handoff_part * tier.handoff_target)
        if own <= 1 < handoff:
            reason = Reason.TTFT_ABOVE_TARGET
        return Miss(max(own, handoff), reason)
