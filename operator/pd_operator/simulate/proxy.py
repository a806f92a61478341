"""The simulated proxy's counters: what the real one would expose at a moment."""

from bisect import bisect_left
from dataclasses import dataclass, field
from itertools import accumulate

from pd_operator.autoscale.exposition import Histogram
from pd_operator.autoscale.sample import ProxySample
from pd_shared import metrics


@dataclass
class _Buckets:
    bounds: tuple[float, ...]
    counts: list[int] = field(init=False)
    sum: float = 0.0

    def __post_init__(self) -> None:
        self.counts = [0] * (len(self.bounds) + 1)

    def observe(self, seconds: float) -> None:
        self.counts[bisect_left(self.bounds, seconds)] += 1
        self.sum += seconds

    def histogram(self) -> Histogram:
        counts = tuple(float(count) for count in accumulate(self.counts))
        return Histogram(self.bounds, counts, self.sum)


@dataclass
class SimulatedProxy:
    """Counts what happens in the simulation."""

    offered: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    prefilling: int = 0
    decoding: int = 0
    done: int = 0
    prefill_busy: float = 0.0
    """Seconds that prefillers worked on prompts, without waiting."""
    _ttft: _Buckets = field(default_factory=lambda: _Buckets(metrics.TTFT_BUCKETS))
    _prefill: _Buckets = field(default_factory=lambda: _Buckets(metrics.TTFT_BUCKETS))
    _tpot: _Buckets = field(default_factory=lambda: _Buckets(metrics.TPOT_BUCKETS))

    def arrived(self) -> None:
        """A request came and waits for its prefill."""
        self.offered += 1
        self.prefilling += 1

    def prefilled(self, prompt: int, seconds: float, busy: float) -> None:
        """A prefill ended so long after the arrival, of which the engine was `busy`."""
        self.prefill_busy += busy
        self.prompt_tokens += prompt
        self.prefilling -= 1
        self.decoding += 1
        self._prefill.observe(seconds)

    def again(self) -> None:
        """A decoder failed: its request waits for a prefill again."""
        self.decoding -= 1
        self.prefilling += 1

    def started(self, seconds: float) -> None:
        """A first token came so long after the arrival."""
        self._ttft.observe(seconds)

    def ended(self, tokens: int, tpot: float | None) -> None:
        """A request got its last token."""
        self.decoding -= 1
        self.done += 1
        self.completion_tokens += tokens
        if tpot is not None:
            self._tpot.observe(tpot)

    def sample(self, now: float) -> ProxySample:
        """What a scrape would read at a moment."""
        return ProxySample(
            offered=self.offered,
            refused=0.0,
            ended=self.done,
            prompt_tokens=self.prompt_tokens,
            completion_tokens=self.completion_tokens,
            in_flight_prefill=self.prefilling,
            in_flight_decode=self.decoding,
            ttft=self._ttft.histogram(),
            prefill=self._prefill.histogram(),
            tpot=self._tpot.histogram(),
        )
