"""Policies to compare: a fixed split, the HPA's rule, and the operator's own."""

import math
from dataclasses import dataclass, field

from pd_operator.api.autoscaling import Mode
from pd_operator.autoscale.decision import Policy, TierPolicy
from pd_operator.autoscale.sample import ProxySample
from pd_operator.autoscale.track import Fleet, TierFleet, Track
from pd_operator.simulate.world import Tiers


@dataclass(frozen=True)
class Bounds:
    """Targets in seconds and bounds of both tiers."""

    ttft: float
    tpot: float
    min: int = 1
    max: int = 48


@dataclass
class Fixed:
    """Never changes anything."""

    prefill: int
    decode: int
    interval: float = 15.0

    def tick(self, now: float, sample: ProxySample, tiers: Tiers) -> tuple[int, int]:
        """The fixed numbers."""
        return self.prefill, self.decode


@dataclass
class HPA:
    """Kubernetes' rule on requests in flight per pod: tolerance 10 %, five minutes down."""

    bounds: Bounds
    prefill_each: float = 2.0
    decode_each: float = 32.0
    interval: float = 15.0
    _wanted: list[tuple[float, int, int]] = field(default_factory=list)

    def tick(self, now: float, sample: ProxySample, tiers: Tiers) -> tuple[int, int]:
        """The most that the rule gave in the last five minutes, or more at once."""
        prefill = self._rule(sample.in_flight_prefill or 0.0, self.prefill_each, tiers.prefill)
        decode = self._rule(sample.in_flight_decode or 0.0, self.decode_each, tiers.decode)
        self._wanted = [w for w in self._wanted if now - w[0] <= 300] + [(now, prefill, decode)]
        return max(w[1] for w in self._wanted), max(w[2] for w in self._wanted)

    def _rule(self, load: float, each: float, pods: int) -> int:
        wanted = load / each
        if pods and abs(wanted / pods - 1) <= 0.1:
            return pods
        return min(self.bounds.max, max(self.bounds.min, math.ceil(wanted)))


@dataclass
class Ours:
    """The operator's own rule, fed as in the operator."""

    bounds: Bounds
    stabilization: float = 300.0
    interval: float = 15.0
    _track: Track = field(default_factory=Track)

    def tick(self, now: float, sample: ProxySample, tiers: Tiers) -> tuple[int, int]:
        """What the operator would set."""
        bounds = self.bounds
        policy = Policy(
            Mode.AUTO,
            TierPolicy(bounds.ttft, bounds.min, bounds.max),
            TierPolicy(bounds.tpot, bounds.min, bounds.max, handoff_target=bounds.ttft),
            stabilization=self.stabilization,
            window=4 * self.interval,
        )
        fleet = Fleet(
            frozenset({"proxy"}),
            TierFleet(tiers.prefill, tiers.prefill, tiers.prefill_ready),
            TierFleet(tiers.decode, tiers.decode, tiers.decode_ready),
        )
        track = self._track.record("proxy", now, sample, self.interval)
        self._track = track.decided(fleet, policy, self.interval, now)
        decision = self._track.last
        if decision is None:
            return tiers.prefill, tiers.decode
        return decision.prefill.desired, decision.decode.desired
