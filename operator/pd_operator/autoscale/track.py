"""One PDDeployment's autoscaling through time: samples in, decisions and numbers out. Pure."""

from dataclasses import dataclass, field, replace
from typing import Final

from pd_operator.api.autoscaling import Mode
from pd_operator.autoscale import signals, window
from pd_operator.autoscale.decide import decide
from pd_operator.autoscale.decision import Decision, Observation, Policy, State, TierView
from pd_operator.autoscale.journal import Entry, Journal
from pd_operator.autoscale.proof import Proof, proof
from pd_operator.autoscale.sample import ProxySample
from pd_operator.autoscale.window import History, Range

STALE_INTERVALS: Final = 3
"""A signal that was not told for so many scrape intervals is stale."""
TRAFFIC_SECONDS: Final = 300.0
"""What the traffic's numbers cover."""


@dataclass(frozen=True)
class Fleet:
    """What of the cluster a decision needs.

    `proxies` are the UIDs of the pods that should tell their metrics now. The tiers' `wanted`
    is what the spec asks for, `applied` what the StatefulSets have (None: there is none yet).
    Where the decode tier does both, that is `prefill` too.
    """

    proxies: frozenset[str]
    prefill: "TierFleet"
    decode: "TierFleet"


@dataclass(frozen=True)
class TierFleet:
    """One tier's replicas: asked for by the spec, set in the StatefulSets, ready pods, and those
    that go."""

    wanted: int
    applied: int | None
    ready: int
    draining: int = 0


@dataclass(frozen=True)
class Traffic:
    """The traffic of the last TRAFFIC_SECONDS; latencies in seconds, requests arrived."""

    proof: Proof
    ttft_p95: float | None
    tpot_p95: float | None
    requests: float
    fresh: bool


@dataclass(frozen=True)
class Track:
    """What is remembered; the empty one is that after a restart."""

    history: History = field(default_factory=History)
    state: State = field(default_factory=State)
    last: Decision | None = None
    commanded: tuple[int, int] | None = None
    """Replicas that the last decision set, prefill and decode; None where none may be set."""
    colocated: bool = False
    """Whether the state is of one tier that does both."""
    journal: Journal = field(default_factory=Journal)

    def record(self, uid: str, now: float, sample: ProxySample, interval: float) -> "Track":
        """With one scrape of one proxy."""
        keep = TRAFFIC_SECONDS + 2 * STALE_INTERVALS * interval
        return replace(self, history=self.history.record(uid, now, sample, keep))

    def decided(self, fleet: Fleet, policy: Policy, interval: float, now: float) -> "Track":
        """With the decision of this moment; without any where autoscaling is off."""
        if policy.mode is Mode.OFF:
            return replace(self, state=State(), last=None, commanded=None)
        if policy.colocated != self.colocated:
            # What a replica bore in one mode says nothing of the other.
            fresh = replace(self, state=State(), commanded=None, colocated=policy.colocated)
            return fresh.decided(fleet, policy, interval, now)
        spread = Range(now - policy.window, now, STALE_INTERVALS * interval, fleet.proxies)
        prefill, decode = self.commanded or (None, None)
        observation = Observation(
            prefill=TierView(
                self._current(fleet.prefill, policy, prefill),
                fleet.prefill.ready,
                signals.prefill(self.history, spread),
                fleet.prefill.draining,
            ),
            decode=TierView(
                self._current(fleet.decode, policy, decode),
                fleet.decode.ready,
                signals.decode(self.history, spread),
                fleet.decode.draining,
            ),
            requests=signals.requests(self.history, spread),
            window=signals.span(self.history, spread),
        )
        decision = decide(observation, policy, self.state, now)
        entry = Entry(
            now, observation, policy, self.state, decision.prefill.desired, decision.decode.desired
        )
        tier = decision.decode if policy.colocated else decision.prefill
        commanded = (tier.desired, decision.decode.desired)
        return replace(
            self,
            state=decision.state,
            last=decision,
            journal=self.journal.noted(entry),
            commanded=commanded if policy.mode is Mode.AUTO else None,
        )

    def traffic(self, fleet: Fleet, interval: float, now: float) -> Traffic:
        """The traffic's numbers up to now."""
        spread = Range(now - TRAFFIC_SECONDS, now, STALE_INTERVALS * interval, fleet.proxies)
        trust = window.freshness(self.history, spread, signals.offered)
        return Traffic(
            proof=proof(self.history, spread),
            ttft_p95=signals.percentile(self.history, spread, signals.ttft)[0],
            tpot_p95=signals.percentile(self.history, spread, signals.tpot)[0],
            requests=signals.arrived(self.history, spread),
            fresh=trust in (window.Freshness.FRESH, window.Freshness.PARTIAL),
        )

    @staticmethod
    def _current(tier: TierFleet, policy: Policy, decided: int | None) -> int:
        # Advice is about what the spec asks for. In Auto the last decision stands, whoever
        # changed the StatefulSet since; after a restart the StatefulSet is what is known of it.
        if policy.mode is not Mode.AUTO:
            return tier.wanted
        if decided is not None:
            return decided
        return tier.wanted if tier.applied is None else tier.applied
