"""What the proxies said lately: rates, averages and quantiles over all of them.

Time is a monotonic clock's seconds, handed in. Each proxy pod is known by its UID. A counter
that fell was restarted and counts on from zero. A proxy that vanished keeps what it counted
while it was there, so that the sum does not jump when another takes over its traffic.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from itertools import pairwise
from operator import add, lt
from typing import Final

from pd_operator.autoscale.exposition import Histogram
from pd_operator.autoscale.sample import ProxySample

DENSE_SECONDS: Final = 150.0
"""Samples younger than this are all kept; older ones are thinned."""
THIN_SECONDS: Final = 10.0
"""Least distance of the older samples."""

Counter = Callable[[ProxySample], float | None]
Stamped = tuple[float, ProxySample]
Counts = tuple[float, ...]
Points = tuple[tuple[float, float], ...]


class Freshness(StrEnum):
    """How far a signal can be trusted."""

    FRESH = "Fresh"
    """Every proxy told it lately."""
    PARTIAL = "Partial"
    """Some proxy did not: the signal is a lower bound."""
    STALE = "Stale"
    """It was told once, but not lately."""
    ABSENT = "Absent"
    """It was never told."""


@dataclass(frozen=True)
class History:
    """Samples by proxy pod UID, in rising order of time."""

    pods: Mapping[str, tuple[Stamped, ...]] = field(default_factory=dict)

    def record(self, uid: str, now: float, sample: ProxySample, keep: float) -> "History":
        """With this sample, and without those older than `keep` seconds.

        A sample that is not younger than the pod's last one is ignored: time does not run back.
        """
        old = self.pods.get(uid, ())
        if old and now <= old[-1][0]:
            return self
        pods = {pod: _kept(samples, now, keep) for pod, samples in self.pods.items()}
        pods[uid] = (*_kept(old, now, keep), (now, sample))
        return History({pod: samples for pod, samples in pods.items() if samples})

    def points(self, uid: str, get: Callable[[ProxySample], float | None]) -> Points:
        """One signal of one proxy, where it was told."""
        told = ((time, get(sample)) for time, sample in self.pods.get(uid, ()))
        return tuple((time, value) for time, value in told if value is not None)


@dataclass(frozen=True)
class Range:
    """From when to when, and how old a last sample may be to count as fresh; seconds.

    `proxies` are the UIDs of the pods that should tell their metrics at the end of it.
    """

    start: float
    end: float
    stale_after: float
    proxies: frozenset[str] = frozenset()

    def alive(self, uid: str, last: float) -> bool:
        """Whether a proxy with this last sample still counts, and only its scrapes are late."""
        return uid in self.proxies and self.end - last <= self.stale_after


def freshness(
    history: History, window: Range, get: Callable[[ProxySample], object | None]
) -> Freshness:
    """Of one signal at the range's end."""
    last = {
        uid: max((time for time, sample in samples if get(sample) is not None), default=None)
        for uid, samples in history.pods.items()
    }
    told = [
        uid
        for uid in window.proxies
        if (time := last.get(uid)) is not None and window.alive(uid, time)
    ]
    if told and len(told) == len(window.proxies):
        return Freshness.FRESH
    if told:
        return Freshness.PARTIAL
    return Freshness.STALE if any(time is not None for time in last.values()) else Freshness.ABSENT


def covered(history: History, window: Range) -> tuple[float, float]:
    """The part of the range between the first and the last sample of any proxy."""
    times = [
        time
        for samples in history.pods.values()
        for time in (samples[0][0], samples[-1][0])
        if samples
    ]
    start = max(window.start, min(times, default=window.end))
    return start, max(start, min(window.end, max(times, default=start)))


def increase(
    history: History, window: Range, get: Callable[[ProxySample], float | None]
) -> dict[str, float]:
    """How much a counter rose in the range, by proxy."""
    rises: dict[str, float] = {}
    for uid in history.pods:
        points = _unwound(history.points(uid, get))
        if points:
            rises[uid] = max(0.0, _at(points, window.end) - _at(points, window.start))
    return rises


def rate(
    history: History, window: Range, get: Callable[[ProxySample], float | None]
) -> float | None:
    """A counter's rise per second over all proxies; None before two samples exist."""
    start, end = covered(history, window)
    total = 0.0
    known = False
    for uid, rise in increase(history, window, get).items():
        points = history.points(uid, get)
        # A living proxy whose last scrapes were lost is rated up to its last sample; a vanished
        # one up to the end, for others have its traffic since.
        last = points[-1][0]
        until = min(last, end) if window.alive(uid, last) else end
        if until > start and len(points) > 1:
            known = True
            total += rise / (until - start)
    return total if known else None


def average(
    history: History, window: Range, get: Callable[[ProxySample], float | None]
) -> float | None:
    """A gauge's mean over time, summed over all proxies; None before a sample exists."""
    start, end = covered(history, window)
    area = 0.0
    last_values: list[float] = []
    for uid in history.pods:
        points = history.points(uid, get)
        if not points:
            continue
        if window.alive(uid, points[-1][0]):
            last_values.append(points[-1][1])
            points = (*points, (end, points[-1][1]))
        for (begin, value), (finish, _) in pairwise(points):
            overlap = min(finish, end) - max(begin, start)
            area += value * max(0.0, overlap)
    if end > start:
        return area / (end - start)
    return sum(last_values) if last_values else None


def latest(
    history: History, window: Range, get: Callable[[ProxySample], float | None]
) -> float | None:
    """A gauge's newest values, summed over the proxies that told it lately."""
    values = [
        points[-1][1]
        for uid in history.pods
        if (points := history.points(uid, get)) and window.alive(uid, points[-1][0])
    ]
    return sum(values) if values else None


def distribution(
    history: History, window: Range, get: Callable[[ProxySample], Histogram | None]
) -> Histogram | None:
    """The observations that fell in the range, of all proxies; None where there is no sample.

    A proxy whose buckets differ from the first one's is left out: they cannot be added.
    """
    total: Histogram | None = None
    for uid in history.pods:
        told = [(t, h) for t, s in history.pods[uid] if (h := get(s)) is not None]
        if not told:
            continue
        bounds = told[-1][1].bounds
        if total is not None and total.bounds != bounds:
            continue
        same = [(t, (*h.counts, h.sum)) for t, h in told if h.bounds == bounds]
        rises = _vector_rise(same, window)
        if total is not None:
            rises = tuple(map(add, rises, (*total.counts, total.sum)))
        total = Histogram(bounds, rises[:-1], rises[-1])
    return total


def quantile(histogram: Histogram, q: float) -> float | None:
    """The q-quantile in seconds, linear within a bucket; None without observations.

    Beyond the last finite bound it is that bound: a lower bound of the truth.
    """
    count = histogram.counts[-1]
    if count <= 0 or not histogram.bounds:
        return None
    rank = q * count
    low, below = 0.0, 0.0
    for bound, cumulative in zip(histogram.bounds, histogram.counts, strict=False):
        if cumulative >= rank and cumulative > below:
            return low + (bound - low) * min(1.0, max(0.0, (rank - below) / (cumulative - below)))
        low, below = bound, cumulative
    return histogram.bounds[-1]


def _kept(samples: tuple[Stamped, ...], now: float, keep: float) -> tuple[Stamped, ...]:
    kept: list[Stamped] = []
    for stamped in samples:
        age = now - stamped[0]
        if age > keep:
            continue
        # Counters lose nothing by thinning: only the resolution of old times.
        if age > DENSE_SECONDS and kept and stamped[0] - kept[-1][0] < THIN_SECONDS:
            continue
        kept.append(stamped)
    return tuple(kept)


def _unwound(points: Points) -> Points:
    """A counter without its restarts: it only rises."""
    result: list[tuple[float, float]] = []
    offset, before = 0.0, 0.0
    for time, value in points:
        if result and value < before:
            offset += before
        result.append((time, offset + value))
        before = value
    return tuple(result)


def _at(points: Points, time: float) -> float:
    if time <= points[0][0]:
        return points[0][1]
    for (begin, low), (finish, high) in pairwise(points):
        if time <= finish:
            return low + (high - low) * (time - begin) / (finish - begin)
    return points[-1][1]


def _vector_rise(told: list[tuple[float, Counts]], window: Range) -> Counts:
    unwound: list[tuple[float, Counts]] = []
    offset = before = (0.0,) * len(told[0][1])
    restarted = False
    for time, counts in told:
        # One bucket that fell means that the process is a new one: all its buckets are.
        if any(map(lt, counts, before)):
            offset = tuple(map(add, offset, before))
            restarted = True
        unwound.append((time, tuple(map(add, offset, counts)) if restarted else counts))
        before = counts
    end, start = _vector_at(unwound, window.end), _vector_at(unwound, window.start)
    return tuple(max(0.0, after - earlier) for after, earlier in zip(end, start, strict=True))


def _vector_at(points: list[tuple[float, Counts]], time: float) -> Counts:
    if time <= points[0][0]:
        return points[0][1]
    for (begin, low), (finish, high) in pairwise(points):
        if time <= finish:
            part = (time - begin) / (finish - begin)
            return tuple(a + (b - a) * part for a, b in zip(low, high, strict=True))
    return points[-1][1]
