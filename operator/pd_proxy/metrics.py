"""The proxy's metrics: plain numbers, cheap to raise, and their Prometheus text."""

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from pd_shared import metrics as names

CONTENT_TYPE: Final = b"content-type: text/plain; version=0.0.4; charset=utf-8\r\n"


@dataclass(frozen=True, slots=True)
class Family:
    """A metric and its samples as lines of the text format; `kind` is its type."""

    kind: str
    name: str
    samples: list[str]


class Histogram:
    """Counts of observations by upper bound."""

    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def observe(self, value: float) -> None:
        """Count one value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    @property
    def count(self) -> int:
        """How many values were observed."""
        return sum(self._counts)

    def lines(self, name: str) -> list[str]:
        """The samples of the text format."""
        total = 0
        lines = []
        for bound, count in zip((*self._bounds, "+Inf"), self._counts, strict=True):
            total += count
            lines.append(f'{name}_bucket{{le="{bound}"}} {total}')
        return [*lines, f"{name}_sum {self._sum}", f"{name}_count {total}"]


class Labelled:
    """A number for each value of one label."""

    __slots__ = ("_label", "values")

    def __init__(self, label: str, initial: tuple[str, ...] = ()) -> None:
        self._label = label
        self.values: dict[str, float] = dict.fromkeys(initial, 0)

    def add(self, value: str, amount: float = 1) -> None:
        """Raise the number of this label value."""
        self.values[value] = self.values.get(value, 0) + amount

    def lines(self, name: str) -> list[str]:
        """The samples of the text format."""
        return [
            f'{name}{{{self._label}="{escape(value)}"}} {number}'
            for value, number in self.values.items()
        ]


class Metrics:
    """All metrics of one proxy process."""

    def __init__(self) -> None:
        self.offered = 0
        self.prompt_tokens = 0
        self.completion_tokens = 0
        self.internal_errors = 0
        self.requests = Labelled("outcome", names.OUTCOMES)
        self.in_flight = Labelled("tier", (names.TIER_PREFILL, names.TIER_DECODE))
        self.retries = Labelled("reason")
        self.fallbacks = Labelled("reason")
        self.shed = Labelled("reason", names.SHED_REASONS)
        self.orphans = Labelled("outcome", ("freed", "left"))
        self.queued = 0
        self.queue = Histogram(names.TTFT_BUCKETS)
        self.ttft = Histogram(names.TTFT_BUCKETS)
        self.prefill = Histogram(names.TTFT_BUCKETS)
        self.kv_wait = Histogram(names.TTFT_BUCKETS)
        self.itl = Histogram(names.TPOT_BUCKETS)
        self.tpot = Histogram(names.TPOT_BUCKETS)
        self.e2e = Histogram(names.E2E_BUCKETS)
        self.kv_expected = Labelled("decoder")
        self.kv_expected_requests = Labelled("decoder")
        self.kv_moved = Labelled("decoder")
        self.kv_cached = Labelled("decoder")
        self.kv_recomputed = Labelled("decoder")

    def forget_decoder(self, name: str) -> None:
        """Drop the series of a decoder that is gone for good."""
        for metric in (
            self.kv_expected,
            self.kv_expected_requests,
            self.kv_moved,
            self.kv_cached,
            self.kv_recomputed,
        ):
            metric.values.pop(name, None)

    def text(self, families: Iterable[Family] = ()) -> bytes:
        """The exposition, with families that others know."""
        lines: list[str] = []

        def put(kind: str, name: str, samples: list[str]) -> None:
            lines.append(f"# TYPE {name} {kind}")
            lines.extend(samples)

        for name, value in (
            (names.REQUESTS_OFFERED, self.offered),
            (names.PROMPT_TOKENS_OFFERED, self.prompt_tokens),
            (names.COMPLETION_TOKENS, self.completion_tokens),
            (names.INTERNAL_ERRORS, self.internal_errors),
        ):
            put("counter", name, [f"{name} {value}"])
        for name, labelled in (
            (names.REQUESTS, self.requests),
            (names.RETRIES, self.retries),
            (names.FALLBACKS, self.fallbacks),
            (names.SHED, self.shed),
            (names.ORPHANED_HANDOFFS, self.orphans),
            (names.KV_EXPECTED_TOKENS, self.kv_expected),
            (names.KV_EXPECTED_REQUESTS, self.kv_expected_requests),
            (names.KV_MOVED_TOKENS, self.kv_moved),
            (names.KV_CACHED_TOKENS, self.kv_cached),
            (names.KV_RECOMPUTED_TOKENS, self.kv_recomputed),
        ):
            put("counter", name, labelled.lines(name))
        put("gauge", names.QUEUED, [f"{names.QUEUED} {self.queued}"])
        put("gauge", names.IN_FLIGHT, self.in_flight.lines(names.IN_FLIGHT))
        for family in families:
            put(family.kind, family.name, family.samples)
        for name, histogram in (
            (names.QUEUE, self.queue),
            (names.TTFT, self.ttft),
            (names.PREFILL, self.prefill),
            (names.KV_WAIT, self.kv_wait),
            (names.ITL, self.itl),
            (names.TPOT, self.tpot),
            (names.E2E, self.e2e),
        ):
            put("histogram", name, histogram.lines(name))
        lines.append("")
        return "\n".join(lines).encode()


def escape(value: str) -> str:
    """A label's value as it stands between quotes."""
    return value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
