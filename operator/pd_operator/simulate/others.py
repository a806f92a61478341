"""Policies of others, to compare with: the published rules, approximated."""

import math
from dataclasses import dataclass, field

from pd_operator.autoscale.sample import ProxySample
from pd_operator.simulate.latency import Latency
from pd_operator.simulate.setting import Tiers


@dataclass(frozen=True)
class Bounds:
    """Targets in seconds, bounds of both tiers, and the part of the requests to be in time."""

    ttft: float
    tpot: float
    min: int = 1
    max: int = 48
    budget: int = 64
    attain: float = 0.985

    def keep(self, replicas: int) -> int:
        """The nearest number within the bounds."""
        return min(self.max, max(self.min, replicas))


@dataclass
class Fixed:
    """Never changes anything."""

    prefill: int
    decode: int
    interval: float = 60.0

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
        return self.bounds.keep(math.ceil(wanted))


@dataclass
class Ratio:
    """One signal for both tiers, as HeteroScale: tokens decoded per second, at a fixed ratio.

    `each` is the tokens per second of a decoder, `ratio` the prefillers beside one.
    """

    bounds: Bounds
    ratio: float
    each: float = 900.0
    interval: float = 15.0
    _tokens: list[tuple[float, float]] = field(default_factory=list)
    _wanted: list[tuple[float, int]] = field(default_factory=list)

    def tick(self, now: float, sample: ProxySample, tiers: Tiers) -> tuple[int, int]:
        """Proportional to the last minute's tokens; down by the most of five minutes."""
        self._tokens = [t for t in self._tokens if now - t[0] <= 60]
        self._tokens.append((now, sample.completion_tokens or 0.0))
        (first, before), (last, after) = self._tokens[0], self._tokens[-1]
        decode = tiers.decode
        if last > first:
            wanted = (after - before) / (last - first) / self.each
            if abs(wanted / max(1, decode) - 1) > 0.1:
                decode = self.bounds.keep(math.ceil(wanted))
        self._wanted = [w for w in self._wanted if now - w[0] <= 300] + [(now, decode)]
        decode = max(w[1] for w in self._wanted)
        return self.bounds.keep(math.ceil(self.ratio * decode)), decode


@dataclass
class DynamoLike:
    """Both loops of NVIDIA Dynamo's planner 1.6: throughput every 180 s, load every 5 s.

    Throughput sizes both tiers at full use of the mean request; load adds one replica where all
    engines are above the target, takes one where all would stay below 80 %, and does nothing
    while any pod starts. It knows the engines' latencies beforehand.
    """

    bounds: Bounds
    latency: Latency
    interval: float = 5.0
    _at: float = 0.0
    _last: ProxySample = field(default_factory=ProxySample)
    _floor: tuple[int, int] = (1, 1)

    def tick(self, now: float, sample: ProxySample, tiers: Tiers) -> tuple[int, int]:
        """The load loop's replicas, at least the throughput loop's."""
        if now - self._at >= 180:
            self._floor = self._throughput(sample, now - self._at)
            self._at, self._last = now, sample
        if tiers.prefill_ready < tiers.prefill or tiers.decode_ready < tiers.decode:
            return tiers.prefill, tiers.decode
        prefill = self._load(tiers.backlogs, self.bounds.ttft, tiers.prefill)
        decode = self._load(tiers.steps, self.bounds.tpot, tiers.decode)
        keep = self.bounds.keep
        return keep(max(prefill, self._floor[0])), keep(max(decode, self._floor[1]))

    @staticmethod
    def _load(estimates: tuple[float, ...], target: float, replicas: int) -> int:
        if not estimates:
            return replicas
        if min(estimates) > target:
            return replicas + 1
        fewer = replicas / max(1, replicas - 1)
        if replicas > 1 and max(estimates) * fewer < 0.8 * target:
            return replicas - 1
        return replicas

    def _throughput(self, sample: ProxySample, seconds: float) -> tuple[int, int]:
        last = self._last
        ended = (sample.ended or 0.0) - (last.ended or 0.0)
        if ended <= 0:
            return 1, 1
        prompt = ((sample.prompt_tokens or 0.0) - (last.prompt_tokens or 0.0)) / ended
        output = ((sample.completion_tokens or 0.0) - (last.completion_tokens or 0.0)) / ended
        offered = ((sample.offered or 0.0) - (last.offered or 0.0)) / seconds
        context = prompt + output / 2
        batch = 1
        while batch < 512 and self.latency.step(batch + 1, (batch + 1) * context) <= (
            self.bounds.tpot
        ):
            batch += 1
        decode = offered * output * self.latency.step(batch, batch * context) / batch
        return (
            self.bounds.keep(math.ceil(offered * self.latency.prefill(prompt))),
            self.bounds.keep(math.ceil(decode)),
        )
