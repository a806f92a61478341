"""The time of a decode step by the batch, learned, and the decoders that a demand needs. Pure."""

import math
from dataclasses import dataclass, replace
from typing import Final

_SLOPE: Final = 0.01
"""Before it is measured a request is taken to lengthen a step by this part of an empty one."""
_TRUST: Final = 30.0
"""Observations that this guess weighs as much as."""
_FORGET: Final = 0.99
_OUTLIER: Final = 3.0
_CHANCE: Final = 1.0
_LEAST: Final = 8.0
_SPREAD: Final = 1.1
"""The percentile of the time per token is about so many times its mean."""


@dataclass(frozen=True)
class Steps:
    """Sums over (batch of a replica, seconds of a step), the older ones weighing less."""

    weight: float = 0.0
    batch: float = 0.0
    seconds: float = 0.0
    square: float = 0.0
    product: float = 0.0

    def seen(self, batch: float, seconds: float) -> "Steps":
        """With one more observation; one that is far off is taken to the bound."""
        line = self.line()
        if line is not None:
            expected = line.step(batch)
            seconds = min(_OUTLIER * expected, max(expected / _OUTLIER, seconds))
        return replace(
            self,
            weight=_FORGET * self.weight + 1,
            batch=_FORGET * self.batch + batch,
            seconds=_FORGET * self.seconds + seconds,
            square=_FORGET * self.square + batch * batch,
            product=_FORGET * self.product + batch * seconds,
        )

    def line(self) -> "Line | None":
        """The fitted line; None before enough was seen."""
        if self.weight < _LEAST:
            return None
        batch, seconds = self.batch / self.weight, self.seconds / self.weight
        guess = _SLOPE * seconds / (1 + _SLOPE * batch)
        prior = _TRUST * (1 + batch)
        varied = self.square - self.weight * batch * batch
        shared = self.product - self.weight * batch * seconds
        slope = (shared + prior * guess) / (max(0.0, varied) + prior)
        slope = min(max(slope, guess / 10), seconds / max(1.0, batch))
        return Line(max(seconds / 10, seconds - slope * batch), slope)


@dataclass(frozen=True)
class Line:
    """A step takes `base` seconds, and `slope` more for each request of the batch."""

    base: float
    slope: float

    def step(self, batch: float) -> float:
        """Seconds of a step."""
        return self.base + self.slope * batch

    def needed(self, tokens: float, target: float) -> int | None:
        """Fewest replicas for so many tokens per second with steps within `target` seconds.

        None where an empty replica is slower. The batch follows from the step and the step from
        the batch; chance makes the batch larger by its own deviation.
        """
        bound = target / _SPREAD
        if self.base >= bound:
            return None
        most = (bound - self.base) / self.slope
        at_once = tokens * bound
        at_once += _CHANCE * math.sqrt(at_once)
        return max(1, math.ceil(at_once / most - 1e-9))
