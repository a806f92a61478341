"""How fast requests get their turn, and so how long one should wait before it asks again."""

import math
from typing import Final

_SECONDS: Final = 10.0
"""What is longer ago counts for a third, and so on."""
LONGEST: Final = 30
"""What a client is told at most, in seconds."""

_UNKNOWN: Final = 0.01
"""A lower rate tells of a time without load, not of a slow engine."""


class Pace:
    """A decaying rate of events; times in the loop's time."""

    def __init__(self) -> None:
        self._rate = 0.0
        self._last = 0.0

    def note(self, count: int, now: float) -> None:
        """So many have had their turn since this was called last."""
        self._decay(now)
        self._rate += count / _SECONDS

    def rate(self, now: float) -> float:
        """Turns a second, of late."""
        self._decay(now)
        return self._rate

    def wait(self, ahead: int, now: float) -> int:
        """Whole seconds until so many have had their turn, from 1 to LONGEST."""
        rate = self.rate(now)
        if rate < _UNKNOWN:
            return 1
        return max(1, min(LONGEST, math.ceil(ahead / rate)))

    def _decay(self, now: float) -> None:
        passed = now - self._last
        if passed > 0:
            self._rate *= math.exp(-passed / _SECONDS)
            self._last = now
