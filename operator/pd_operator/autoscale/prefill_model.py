"""The part of the requests that get their first token in time, by the number of prefillers. Pure.

Service times are lognormal around the measured mean. Waiting is that of Allen and Cunneen for a
common queue and for queues of each replica; a proxy that chooses pods is between the two, so the
geometric mean of both is taken.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pd_operator.autoscale.queueing import MOST

_NORMAL: Final = (-1.732, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.1)
"""Quantiles of the normal distribution that stand for the parts below."""
_PARTS: Final = (0.08, 0.16, 0.15, 0.17, 0.17, 0.14, 0.08, 0.05)


@dataclass(frozen=True)
class Prompts:
    """Prefills of one workload: mean seconds alone, squared variation, seconds until too late."""

    service: float
    variation: float
    slack: float


@dataclass(frozen=True)
class Demand:
    """A load in erlangs that may come, and its weight."""

    erlangs: float
    weight: float


def attained(replicas: int, erlangs: float, prompts: Prompts) -> float:
    """The part in time at so many replicas; 0 where they cannot keep up."""
    if erlangs <= 0:
        return possible(prompts)
    if replicas <= erlangs:
        return 0.0
    use = erlangs / replicas
    must_wait = _must_wait(replicas, use)
    pace = 2 * (1 - use) * math.sqrt(replicas) / (prompts.service * (1 + prompts.variation))
    return sum(
        part * (1 - must_wait * math.exp(-pace * left)) for part, left in _left(prompts) if left > 0
    )


def erlangs_of(present: float, replicas: int, variation: float) -> float:
    """The load that explains so many requests, waiting or served, on average."""
    low, high = 0.0, min(present, float(replicas))
    for _ in range(30):
        middle = (low + high) / 2
        use = middle / replicas
        waiting = _must_wait(replicas, use) * (1 + variation) / (2 * math.sqrt(replicas))
        if use >= 1 or middle * (1 + waiting / (1 - use)) > present:
            high = middle
        else:
            low = middle
    return low


def _must_wait(replicas: int, use: float) -> float:
    # Sakasegawa's approximation of Erlang's C for the common queue; `use` for one of each.
    return math.sqrt(use ** (math.sqrt(2 * (replicas + 1)) - 1) * use)


def possible(prompts: Prompts) -> float:
    """The part that would be in time if nobody had to wait."""
    return sum(part for part, left in _left(prompts) if left > 0)


def needed(demands: Sequence[Demand], prompts: Prompts, part: float) -> int:
    """Fewest replicas with which `part` of what is possible is attained over the demands.

    Never less than what bears the smallest demand.
    """
    total = sum(demand.weight for demand in demands)
    if total <= 0 or max(demand.erlangs for demand in demands) <= 0:
        return 0
    goal = part * total * possible(prompts)
    low = max(1, math.floor(min(demand.erlangs for demand in demands)) + 1)
    if goal <= 0:
        return min(low, MOST)
    high = low
    while high < MOST and _over(demands, prompts, high) < goal:
        high = min(MOST, 2 * high)
    while low < high:
        middle = (low + high) // 2
        if _over(demands, prompts, middle) >= goal:
            high = middle
        else:
            low = middle + 1
    return low


def _over(demands: Sequence[Demand], prompts: Prompts, replicas: int) -> float:
    return sum(d.weight * attained(replicas, d.erlangs, prompts) for d in demands)


def _left(prompts: Prompts) -> list[tuple[float, float]]:
    spread = math.sqrt(math.log1p(prompts.variation))
    middle = prompts.service * math.exp(-(spread**2) / 2)
    return [
        (part, prompts.slack - middle * math.exp(spread * z))
        for part, z in zip(_PARTS, _NORMAL, strict=True)
    ]
