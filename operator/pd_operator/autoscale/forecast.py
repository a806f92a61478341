"""What load may come until a pod that is asked for now is ready, from the tier's own past. Pure.

For each moment of the past it is known what came a start-up later. The differences that are left
when the load's own persistence is taken out, added to the present load's persistent part, are the
loads that may come: bursts and chance in one. The decision never asks for less by it.
"""

from bisect import bisect_left
from dataclasses import dataclass
from typing import Final

KEEP_SECONDS: Final = 3600.0
STEP_SECONDS: Final = 30.0
_CLASSES: Final = 12
_GUESSES: Final = 10
"""That all stays as it is weighs as much as so many moments of the past."""
_GUESS: Final = 0.3
"""Before it is known, loads are taken to vary by this part."""


@dataclass(frozen=True)
class Past:
    """Loads (time, load), one each STEP_SECONDS, the oldest first."""

    points: tuple[tuple[float, float], ...] = ()

    def seen(self, now: float, load: float) -> "Past":
        """With the load of this moment; what is too old or from the future is dropped."""
        kept = tuple(p for p in self.points if now - KEEP_SECONDS <= p[0] <= now)
        if kept and now - kept[-1][0] < STEP_SECONDS:
            return self if len(kept) == len(self.points) else Past(kept)
        return Past((*kept, (now, load)))

    def ahead(self, load: float, lead: float) -> tuple[tuple[float, float], ...]:
        """(load, weight) that may come within `lead` seconds; weights sum up to 1.

        A past moment weighs as much as load came then: requests count, not minutes.
        """
        pairs = self._pairs(lead)
        total = sum(later for _, later in pairs)
        if len(pairs) < 2 or total <= 0:
            return ((load, 1.0),)
        lasting = _lasting(pairs)
        coming = [(max(0.0, later + lasting * (load - then)), later) for then, later in pairs]
        now = _GUESSES / (_GUESSES + len(pairs))
        return ((load, now), *_classes(coming, total, 1 - now))

    def lasting(self, lead: float) -> float:
        """How much of a change in load is still there after `lead` seconds, between 0 and 1."""
        pairs = self._pairs(lead)
        return _lasting(pairs) if len(pairs) > 1 else 1.0

    def _pairs(self, lead: float) -> list[tuple[float, float]]:
        """Loads, and what they were so much later."""
        times = [time for time, _ in self.points]
        pairs: list[tuple[float, float]] = []
        for time, then in self.points:
            index = bisect_left(times, time + lead)
            if index < len(times) and times[index] <= time + lead + 2 * STEP_SECONDS:
                pairs.append((then, self.points[index][1]))
        return pairs


def _lasting(pairs: list[tuple[float, float]]) -> float:
    """How much of a difference in load is still there later, between 0 and 1.

    1 where the load changes slowly, 0 where a burst is over by then.
    """
    count = len(pairs)
    then, later = sum(p[0] for p in pairs) / count, sum(p[1] for p in pairs) / count
    varied = sum((p[0] - then) ** 2 for p in pairs)
    shared = sum((p[0] - then) * (p[1] - later) for p in pairs)
    guess = _GUESSES * (_GUESS * later) ** 2
    return min(1.0, max(0.0, (shared + guess) / (varied + guess)))


def _classes(
    coming: list[tuple[float, float]], total: float, share: float
) -> list[tuple[float, float]]:
    """The loads in few classes of equal weight; weights sum up to `share`."""
    classes: list[tuple[float, float]] = []
    area = weight = 0.0
    part = total / _CLASSES
    for load, own in sorted(coming):
        area += load * own
        weight += own
        if weight >= part:
            classes.append((area / weight, share * weight / total))
            area = weight = 0.0
    if weight > 0:
        classes.append((area / weight, share * weight / total))
    return classes
