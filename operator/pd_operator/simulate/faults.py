"""What can go wrong with metrics, between the simulated proxy and a policy."""

import math
import random
from dataclasses import dataclass, field, replace

from pd_operator.autoscale.sample import ProxySample
from pd_operator.simulate.policies import Ours
from pd_operator.simulate.setting import Tiers


@dataclass
class Faulty:
    """The operator's policy with scrapes that are lost, missing, frozen or garbled.

    `lost` is the part of scrapes that are lost; `dark`, `frozen` and `garbled` are times
    (from, until) in which none comes, the last one is told again, or all numbers are NaN, which
    the reader of metrics drops.
    """

    ours: Ours
    lost: float = 0.0
    dark: tuple[float, float] = (math.inf, math.inf)
    frozen: tuple[float, float] = (math.inf, math.inf)
    garbled: tuple[float, float] = (math.inf, math.inf)
    seed: int = 0
    shrunk_blind: int = 0
    """How often a tier shrank while nothing was told."""
    _last: ProxySample = field(default_factory=ProxySample)

    def __post_init__(self) -> None:
        self._draw = random.Random(self.seed)  # noqa: S311 - a simulation, nothing secret
        self.interval = self.ours.interval

    def tick(self, now: float, sample: ProxySample, tiers: Tiers) -> tuple[int, int]:
        """The policy's answer to what is left of the sample."""
        blind = self.dark[0] <= now < self.dark[1]
        garbled = self.garbled[0] <= now < self.garbled[1]
        if self.frozen[0] <= now < self.frozen[1]:
            told: ProxySample | None = self._last
        elif blind or self._draw.random() < self.lost:
            told = None
        else:
            told = ProxySample() if garbled else replace(sample)
            self._last = self._last if garbled else sample
        wanted = self.ours.decide(now, told, tiers)
        if blind or garbled:
            self.shrunk_blind += wanted[0] < tiers.prefill or wanted[1] < tiers.decode
        return wanted
