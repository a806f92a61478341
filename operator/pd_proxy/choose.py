"""Which engine gets a request: of two at random the one with less in flight."""

import random
from collections.abc import Collection, Sequence
from itertools import count
from typing import Final

from pd_proxy.backends import Backend, Backends

_turns: Final = count(1)


def pick(backends: Sequence[Backend], tried: Collection[Backend], now: float) -> Backend | None:
    """One of them; a tried or suspect one only where there is no other."""
    if len(backends) == 1:
        return backends[0]
    fresh = [b for b in backends if b.suspect_until <= now and b not in tried]
    candidates = fresh or [b for b in backends if b not in tried] or backends
    if not candidates:
        return None
    if len(candidates) > 2:
        candidates = random.sample(candidates, 2)
    chosen = min(candidates, key=_load)
    chosen.turn = next(_turns)
    return chosen


def _load(backend: Backend) -> tuple[int, int]:
    return backend.in_flight, backend.turn


def pair(
    backends: Backends, tried: Collection[Backend], now: float
) -> tuple[Backend | None, Backend | None]:
    """A prefiller and a decoder of one pairing, or an engine that needs no prefiller.

    A decoder that lacks its prefiller only where there is nothing else.
    """
    decoders = backends.decoders
    usable: dict[str, list[Backend]] = {}
    for pairing, prefillers in backends.prefillers.items():
        if able := [p for p in prefillers if not p.hopeless(now)]:
            usable[pairing] = able
    complete = [d for d in decoders if d.whole or (d.protocol and d.pod.pairing in usable)]
    if not complete:
        return None, pick(decoders, tried, now)
    decoder = pick(complete, tried, now)
    if decoder is None or decoder.whole:
        return None, decoder
    return pick(usable[decoder.pod.pairing], tried, now), decoder


def alone(backends: Backends, tried: Collection[Backend], now: float) -> Backend | None:
    """A decoder without a prefiller: one that needs none, where there is any."""
    whole = [d for d in backends.whole if d.suspect_until <= now and d not in tried]
    return pick(whole or backends.decoders, tried, now)
