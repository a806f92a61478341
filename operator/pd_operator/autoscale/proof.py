"""Whether the KV cache moved: prompt tokens that should have, and that did."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from pd_operator.autoscale.sample import ProxySample
from pd_operator.autoscale.window import Counter, History, Range, increase

SETTLE_SECONDS = 30.0
"""A proxy counts a request at once, and what its decoder says of it only later."""

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


def proof(history: History, window: Range) -> Proof:
    """The numbers of the range over all proxies and decoders."""
    settled = replace(window, end=window.end - SETTLE_SECONDS)
    moved = _told(history, window, lambda sample: sample.kv_moved)
    cached = _told(history, window, lambda sample: sample.kv_cached)

    def expected(within: Range) -> float:
        return max(0.0, _sent(history, within, lambda sample: sample.kv_expected) - cached)

    return Proof(
        expected=expected(window),
        moved=moved,
        recomputed=_told(history, window, lambda sample: sample.kv_recomputed),
        settled_expected=expected(settled),
        settled_moved=moved,
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
