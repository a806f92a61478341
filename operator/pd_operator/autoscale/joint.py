"""Both tiers within one budget: who gets what, and who has to wait. Pure."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Want:
    """A tier's replicas: there now, desired, and the fewest it may have."""

    current: int
    desired: int
    least: int


def split(prefill: Want, decode: Want, budget: int) -> tuple[int, int]:
    """Replicas of both tiers: each at most what is desired, together at most `budget`.

    A request needs both tiers: of all splits the one whose worse tier has the largest part of
    what it needs, then the one with the larger sum of both parts, then the fewest pods. A tier
    grows only into what is free now: what the other one gives up is free when it is gone. What is
    there already is not taken away below the minimums, even if these exceed the budget.
    """
    pods = (prefill.desired, decode.desired)
    if sum(pods) > budget:
        pods = _best(prefill, decode, budget)
    grown = max(0, pods[0] - prefill.current), max(0, pods[1] - decode.current)
    free = max(0, budget - prefill.current - decode.current)
    if sum(grown) <= free:
        return pods
    # Both grow into what is free by their parts; rounding favours the prefillers.
    first = min(grown[0], -(-free * grown[0] // sum(grown)))
    grown = first, min(grown[1], free - first)
    return (
        prefill.current + grown[0] if pods[0] > prefill.current else pods[0],
        decode.current + grown[1] if pods[1] > decode.current else pods[1],
    )


def _best(prefill: Want, decode: Want, budget: int) -> tuple[int, int]:
    least = min(prefill.least, prefill.desired), min(decode.least, decode.desired)
    options = [
        (*_parts(prefill, decode, pods, others), -(pods + others), pods, others)
        for pods in range(least[0], prefill.desired + 1)
        if (others := min(decode.desired, budget - pods)) >= least[1]
    ]
    return max(options)[-2:] if options else least


def _parts(prefill: Want, decode: Want, pods: int, others: int) -> tuple[float, float]:
    parts = pods / max(1, prefill.desired), others / max(1, decode.desired)
    return min(parts), sum(parts)
