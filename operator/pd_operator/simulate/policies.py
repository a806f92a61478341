"""The operator's own policy in the simulation, fed as in the operator."""

from dataclasses import dataclass, field

from pd_operator.api.autoscaling import Mode
from pd_operator.autoscale.decision import Policy, TierPolicy
from pd_operator.autoscale.sample import ProxySample
from pd_operator.autoscale.track import Fleet, TierFleet, Track
from pd_operator.simulate.others import Bounds
from pd_operator.simulate.setting import Tiers


@dataclass
class Ours:
    """The operator's own rule."""

    bounds: Bounds
    stabilization: float = 300.0
    interval: float = 15.0
    _track: Track = field(default_factory=Track)

    @property
    def track(self) -> Track:
        """What it remembers."""
        return self._track

    def tick(self, now: float, sample: ProxySample, tiers: Tiers) -> tuple[int, int]:
        """What the operator would set."""
        return self.decide(now, sample, tiers)

    def decide(self, now: float, sample: ProxySample | None, tiers: Tiers) -> tuple[int, int]:
        """The same where a scrape may have been lost."""
        bounds = self.bounds
        policy = Policy(
            Mode.AUTO,
            TierPolicy(bounds.ttft, bounds.min, bounds.max),
            TierPolicy(bounds.tpot, bounds.min, bounds.max, handoff_target=bounds.ttft),
            stabilization=self.stabilization,
            window=4 * self.interval,
            budget=bounds.budget,
            attain=bounds.attain,
        )
        fleet = Fleet(
            frozenset({"proxy"}),
            TierFleet(tiers.prefill, tiers.prefill, tiers.prefill_ready),
            TierFleet(tiers.decode, tiers.decode, tiers.decode_ready),
        )
        if sample is not None:
            self._track = self._track.record("proxy", now, sample, self.interval)
        self._track = self._track.decided(fleet, policy, self.interval, now)
        decision = self._track.last
        if decision is None:
            return tiers.prefill, tiers.decode
        return decision.prefill.desired, decision.decode.desired
