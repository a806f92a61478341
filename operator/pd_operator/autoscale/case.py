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


PREFILL: Final = Words("prefillers", "TTFT p95", "prompt tokens/s", Reason.TTFT_ABOVE_TARGET)
DECODE: Final = Words("decoders", "TPOT p95", "requests in flight", Reason.TPOT_ABOVE_TARGET)


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
