"""Whether the KV cache moved: prompt tokens that should have, and that did."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from pd_operator.autoscale.sample import ProxySample
from pd_operator.autoscale.window import Counter, History, Range, increase

SETTLE_SECONDS = 30.0
"""A proxy counts a request at once, and what its decoder says of it only later."""

MOVED_PART = 0.9
"""Part of the expected prompt tokens that must have moved."""

NOTHING_PART = 0.1
"""Part of them that may have moved where the wire is taken for broken."""

ENOUGH_REQUESTS = 3.0
"""Requests whose loss says more than that one transfer was lost."""

ByDecoder = Callable[[ProxySample], Mapping[str, float] | None]


@dataclass(frozen=True)
class Proof:
    """Prompt tokens in the range; the settled pair without the newest that were expected.

    What a decoder had in its own prefix cache is not expected to move.
    """

    expected: float
    moved: float
    recomputed: float
    settled_expected: float
    settled_moved: float
    settled_requests: float = 0.0
    """Requests that expected those tokens; 0 where no proxy counts them."""
    lasting: bool = False
    """Whether too little moved in both halves of the range: what one lost transfer cannot do."""

    @property
    def moves(self) -> bool:
        """Whether what was expected came, but for a part that does not matter."""
        return self.settled_moved >= MOVED_PART * self.settled_expected

    @property
    def broken(self) -> bool:
        """Whether transfers are lost as a rule: all of several, or some of many for a while."""
        if self.settled_expected <= 0 or self.moves:
            return False
        moved = self.settled_moved / self.settled_expected
        if self.settled_requests * (1 - moved) < ENOUGH_REQUESTS * (1 - NOTHING_PART):
            return False
        return self.lasting or moved <= NOTHING_PART


def proof(history: History, window: Range) -> Proof:
    """The numbers of the range over all proxies and decoders."""
    settled = replace(window, end=window.end - SETTLE_SECONDS)
    middle = (settled.start + settled.end) / 2
    moved = _told(history, window, lambda sample: sample.kv_moved)

    def expected(within: Range, told: Range) -> float:
        cached = _told(history, told, lambda sample: sample.kv_cached)
        return max(0.0, _sent(history, within, lambda sample: sample.kv_expected) - cached)

    def lacks(half: Range) -> bool:
        came = _told(history, half, lambda sample: sample.kv_moved)
        return came < MOVED_PART * expected(half, half)

    return Proof(
        expected=expected(window, window),
        moved=moved,
        recomputed=_told(history, window, lambda sample: sample.kv_recomputed),
        settled_expected=expected(settled, window),
        settled_moved=moved,
        settled_requests=_sent(history, settled, lambda sample: sample.kv_requests),
        lasting=lacks(replace(settled, end=middle)) and lacks(replace(settled, start=middle)),
    )


def _sent(history: History, window: Range, get: ByDecoder) -> float:
    """Each proxy counts its own requests: they add up."""
    rises = (increase(history, window, _of(get, d)) for d in _decoders(history, get))
    return sum(sum(rise.values()) for rise in rises)


def _told(history: History, window: Range, get: ByDecoder) -> float:
    """Every proxy watches the same decoders' counters: they do not add up."""
    rises = (increase(history, window, _of(get, d)) for d in _decoders(history, get))
    return sum(max(rise.values(), default=0.0) for rise in rises)


def _decoders(history: History, get: ByDecoder) -> list[str]:
    names = {
        name
        for samples in history.pods.values()
        for _, sample in samples
        for name in get(sample) or ()
    }
    return sorted(names)


def _of(get: ByDecoder, decoder: str) -> Counter:
    def value(sample: ProxySample) -> float | None:
        told = get(sample)
        # A labelled counter is shown from its first count on: before that it is zero.
        return None if told is None else told.get(decoder, 0.0)

    return value
