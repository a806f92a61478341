"""Replicas of a tier that serves one request after the other, by queueing theory. Pure.

Loads are in erlangs: the replicas that would be busy on average if nobody had to wait.
"""

import math
from typing import Final

VARIABILITY: Final = 3.0
"""Squared coefficients of variation of arrivals and service times together (1 and 1 for Poisson
arrivals of exponential work): real arrivals come in bursts."""
MOST: Final = 1000
"""No tier is sized beyond this many replicas."""


def must_wait(replicas: int, erlangs: float) -> float:
    """Part of the requests that find all replicas busy (Erlang C); 1 where load exceeds them."""
    if erlangs <= 0:
        return 0.0
    if replicas <= erlangs:
        return 1.0
    blocked = 1.0
    for number in range(1, replicas + 1):
        blocked = erlangs * blocked / (number + erlangs * blocked)
    return blocked / (1 - erlangs / replicas * (1 - blocked))


def late(replicas: int, erlangs: float, service: float, slack: float) -> float:
    """Part of the requests that wait longer than `slack` seconds (Allen and Cunneen).

    `service` is the mean service time in seconds.
    """
    if replicas <= erlangs or service <= 0:
        return 1.0 if erlangs > 0 else 0.0
    decay = 2 * max(0.0, slack) * (replicas - erlangs) / (service * VARIABILITY)
    return must_wait(replicas, erlangs) * math.exp(-decay)


def needed(erlangs: float, service: float, slack: float, part: float) -> int:
    """Fewest replicas with at most `part` of the requests waiting longer than `slack`."""
    replicas = max(1, math.floor(erlangs) + 1)
    while replicas < MOST and late(replicas, erlangs, service, slack) > part:
        replicas += 1
    return min(replicas, MOST)


def useful(erlangs: float) -> int:
    """Replicas beyond which nobody waits any more: others cannot make anything faster.

    At least two: beside a single replica another one always takes away some waiting.
    """
    return min(MOST, max(2, math.ceil(erlangs + 3 * math.sqrt(max(0.0, erlangs)))))


def erlangs_of(busy: float, replicas: int) -> float:
    """The load that explains `busy` requests, waiting or served, on average at so many replicas."""
    low, high = 0.0, min(busy, float(replicas))
    for _ in range(40):
        middle = (low + high) / 2
        if _present(replicas, middle) > busy:
            high = middle
        else:
            low = middle
    return low


def _present(replicas: int, erlangs: float) -> float:
    if erlangs >= replicas:
        return math.inf
    waiting = must_wait(replicas, erlangs) * erlangs / (replicas - erlangs)
    return erlangs + waiting * VARIABILITY / 2
