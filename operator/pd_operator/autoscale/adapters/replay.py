"""The autoscaler as a scaling policy of an outside simulator: plain numbers in, replicas out.

A policy has `initial_tick_ms()`, `on_tick(observation)` and `finalize()`. An observation is a
dict; each key may lack, and be None, NaN or negative, which is the same:

- `now_ms`, else ticks are counted.
- `traffic` {duration_s, num_req (offered), avg_isl, avg_osl, shape_count (requests that these
  means are of), avg_ttft_ms, ttft_count, avg_itl_ms, itl_count, avg_kv_hit_rate}.
- `prefill_fpm_snapshots`, `decode_fpm_snapshots`: of each worker {worker_id,
  num_prefill_requests, num_queued_prefill, num_decode_requests, num_queued_decode, ...}.
- `active_prefill_ids` or `active_prefill` or `active_prefill_count`: workers that serve;
  `starting_…` likewise; `non_draining_prefill_count`: those, and those that start. The same of
  `decode`.
"""

import math
from bisect import bisect_left
from collections.abc import Mapping, Sequence, Set
from itertools import accumulate
from typing import Any, Final

from pd_operator.api.autoscaling import Mode
from pd_operator.autoscale.decision import Policy, TierPolicy
from pd_operator.autoscale.exposition import Histogram
from pd_operator.autoscale.sample import ProxySample
from pd_operator.autoscale.track import Fleet, TierFleet, Track
from pd_shared import metrics

_TTFT_SPREAD: Final = ((0.9, 0.78), (0.1, 3.0))
_TPOT_SPREAD: Final = ((0.9, 0.95), (0.1, 1.45))
"""Only means are told: so many of the requests are taken to have so many times the mean."""

Observation = Mapping[str, Any]


class ReplayPolicy:
    """Feeds the operator's own decision from the observations of a simulator."""

    def __init__(self, policy: Policy, interval: float) -> None:
        self._policy = policy
        self._interval = interval
        self._now = 0.0
        self._track = Track()
        self._asked = (policy.prefill.min, policy.decode.min)
        self._totals = dict.fromkeys(("offered", "ended", "prompt", "completion"), 0.0)
        self._ttft = _Spread(metrics.TTFT_BUCKETS, _TTFT_SPREAD)
        self._tpot = _Spread(metrics.TPOT_BUCKETS, _TPOT_SPREAD)

    def initial_tick_ms(self) -> float:
        """When to be asked first."""
        return self._interval * 1000

    def on_tick(self, observation: Observation) -> dict[str, float | int | None]:
        """The replicas of both tiers; None where a tier is to stay as it is."""
        told = _number(observation.get("now_ms"))
        self._now = told / 1000 if told is not None else self._now + self._interval
        self._count(observation.get("traffic") or {})
        sample = self._sample(observation)
        track = self._track.record("proxy", self._now, sample, self._interval)
        fleet = Fleet(
            frozenset({"proxy"}),
            _tier(observation, "prefill", self._asked[0]),
            _tier(observation, "decode", self._asked[1]),
        )
        self._track = track.decided(fleet, self._policy, self._interval, self._now)
        decision = self._track.last
        wanted: dict[str, float | int | None] = {
            "target_prefill": None,
            "target_decode": None,
            "next_tick_ms": (self._now + self._interval) * 1000,
        }
        if decision is not None:
            self._asked = (decision.prefill.desired, decision.decode.desired)
            if decision.prefill.desired != fleet.prefill.wanted:
                wanted["target_prefill"] = decision.prefill.desired
            if decision.decode.desired != fleet.decode.wanted:
                wanted["target_decode"] = decision.decode.desired
        return wanted

    def finalize(self, *_: object) -> None:
        """The simulation is over."""

    def _count(self, traffic: Observation) -> None:
        came = _number(traffic.get("num_req")) or 0.0
        answered = _number(traffic.get("ttft_count"))
        ended = _number(traffic.get("shape_count"))
        answered = (came if ended is None else ended) if answered is None else answered
        ended = answered if ended is None else ended
        fresh = 1 - min(1.0, _number(traffic.get("avg_kv_hit_rate")) or 0.0)
        self._totals["offered"] += came
        self._totals["ended"] += ended
        self._totals["prompt"] += ended * fresh * (_number(traffic.get("avg_isl")) or 0.0)
        self._totals["completion"] += ended * (_number(traffic.get("avg_osl")) or 0.0)
        self._ttft.observe(answered, _number(traffic.get("avg_ttft_ms")))
        steps = _number(traffic.get("itl_count"))
        # Either a count of requests or of tokens: the histogram is of requests.
        self._tpot.observe(
            answered if steps is None else min(steps, answered),
            _number(traffic.get("avg_itl_ms")),
        )

    def _sample(self, observation: Observation) -> ProxySample:
        prefilling = observation.get("prefill_fpm_snapshots") or ()
        decoding = observation.get("decode_fpm_snapshots") or ()
        return ProxySample(
            offered=self._totals["offered"],
            refused=0.0,
            ended=self._totals["ended"],
            prompt_tokens=self._totals["prompt"],
            completion_tokens=self._totals["completion"],
            in_flight_prefill=_sum(prefilling, "num_prefill_requests", "num_queued_prefill"),
            in_flight_decode=_sum(decoding, "num_decode_requests", "num_queued_decode"),
            ttft=self._ttft.histogram(),
            prefill=self._ttft.histogram(),
            tpot=self._tpot.histogram(),
        )


def make_policy(
    *,
    ttft_ms: float,
    itl_ms: float,
    min_replicas: int = 1,
    max_replicas: int = 64,
    budget: int | None = 64,
    attain: float = 0.985,
    interval_s: float = 15.0,
    stabilization_s: float = 300.0,
) -> ReplayPolicy:
    """A policy for these targets and these bounds of each tier, `budget` workers at most.

    `attain` is the part of the requests to be in time, of those that can be.
    """
    policy = Policy(
        Mode.ADVISE,  # what the simulator has is the truth, whatever was asked for before
        TierPolicy(ttft_ms / 1000, min_replicas, max_replicas),
        TierPolicy(itl_ms / 1000, min_replicas, max_replicas, handoff_target=ttft_ms / 1000),
        stabilization=stabilization_s,
        window=4 * interval_s,
        attain=attain,
        budget=budget,
    )
    return ReplayPolicy(policy, interval_s)


class _Spread:
    """A histogram made of means."""

    def __init__(self, bounds: tuple[float, ...], spread: tuple[tuple[float, float], ...]) -> None:
        self._bounds = bounds
        self._spread = spread
        self._counts = [0.0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, count: float, milliseconds: float | None) -> None:
        if milliseconds is None:
            return
        for part, times in self._spread:
            seconds = times * milliseconds / 1000
            self._counts[bisect_left(self._bounds, seconds)] += part * count
            self._sum += part * count * seconds

    def histogram(self) -> Histogram:
        return Histogram(self._bounds, tuple(accumulate(self._counts)), self._sum)


def _tier(observation: Observation, name: str, before: int) -> TierFleet:
    """A tier's pods; `before` is what was asked for last, where nothing is said."""
    active = _workers(observation, "active", name)
    starting = _workers(observation, "starting", name)
    pods = _number(observation.get(f"non_draining_{name}_count"))
    if pods is None:
        pods = before if active is None else active + (starting or 0)
    ready = int(pods) if active is None else min(active, int(pods))
    draining = _workers(observation, "draining", name) or 0
    return TierFleet(int(pods), int(pods), ready, draining)


def _workers(observation: Observation, state: str, name: str) -> int | None:
    for key in (f"{state}_{name}_ids", f"{state}_{name}"):
        ids = observation.get(key)
        if isinstance(ids, Sequence | Set) and not isinstance(ids, str):
            return len(ids)
    for key in (f"{state}_{name}_count", f"{state}_{name}"):
        count = _number(observation.get(key))
        if count is not None:
            return int(count)
    return None


def _sum(snapshots: Sequence[Observation], *names: str) -> float:
    return sum(_number(s.get(name)) or 0.0 for s in snapshots for name in names)


def _number(value: object) -> float | None:
    if isinstance(value, int | float) and math.isfinite(value) and value >= 0:
        return float(value)
    return None
