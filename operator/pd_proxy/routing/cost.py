"""Which of some backends should get a request: pure functions of what is known of them."""

from collections.abc import Iterable, Sequence
from typing import Final, Protocol, TypeVar

_ABOVE_AVERAGE: Final = 1.25
"""No backend gets more than this part above the average: what would go there overflows."""
_FULL: Final = 0.95
"""A decoder with this part of its KV cache in use preempts sooner than it gets done."""


class Prefilling(Protocol):
    """What is known of a prefiller."""

    @property
    def in_flight(self) -> int:
        """Requests that rest on it."""

    @property
    def queued(self) -> int:
        """Bytes of prompts that it has not answered yet."""


class Decoding(Protocol):
    """What is known of a decoder."""

    @property
    def in_flight(self) -> int:
        """Requests that this proxy has sent it."""

    @property
    def others(self) -> int:
        """Requests that other proxies have sent it, as its metrics told lately."""

    @property
    def kv_usage(self) -> float:
        """The used part of its KV cache, as its metrics told lately."""


P = TypeVar("P", bound=Prefilling)
D = TypeVar("D", bound=Decoding)
T = TypeVar("T")


def bound(in_flight: int, backends: int) -> int:
    """In flight at most on one of so many, with a new request, while so many are on all.

    There is always one below it.
    """
    return max(1, -int(-_ABOVE_AVERAGE * (in_flight + 1) // backends))


def two(backends: Sequence[T], ticket: int) -> Sequence[T]:
    """Two of them, or all where there are no more; the ticket, any large number, says which."""
    count = len(backends)
    if count <= 2:
        return backends
    first = ticket % count
    second = ticket // count % (count - 1)
    return backends[first], backends[second + (second >= first)]


def prefiller(
    size: int,
    most: int,
    *,
    matches: Iterable[tuple[P, int]],
    homes: Iterable[P],
    shared: int,
    others: Iterable[P],
) -> P | None:
    """The one that begins to answer first: it has the least to compute before, and of, the prompt.

    `size` is the prompt's, in bytes. `matches` have computed so much of it before; the homes are
    likely to have computed `shared` bytes of it, for other proxies; `others` nothing. None where
    all of them have `most` in flight.
    """
    best: P | None = None
    least = float("inf")
    for backend, had in matches:
        if backend.in_flight < most and (cost := backend.queued + size - had) < least:
            best, least = backend, cost
    for backend in homes:
        if backend.in_flight < most:
            if (cost := backend.queued + size - min(shared, size)) < least:
                best, least = backend, cost
            break  # the next one is a home only where this one is full
    for backend in others:
        if backend.in_flight < most and (cost := backend.queued + size) < least:
            best, least = backend, cost
    return best


def decoder(candidates: Iterable[D]) -> D | None:
    """The one with the least to do, of which the KV cache is not full; of equals the first."""
    return min(candidates, key=_decode_load, default=None)


def _decode_load(backend: Decoding) -> tuple[bool, int]:
    return backend.kv_usage >= _FULL, backend.in_flight + backend.others
