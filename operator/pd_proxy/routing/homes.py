"""Where a key is at home: the same on every proxy, without a word between them.

Rendezvous hashing: each backend has a score for each key, and the highest is home. A backend that
goes moves the keys that were at home there, and no others.
"""

from collections.abc import Callable, Sequence
from hashlib import blake2b
from heapq import nlargest
from typing import Final, Generic, TypeVar

_KEPT: Final = 4096
HOMES: Final = 3
"""A key's first home, and those that it overflows to."""
_MASK: Final = 2**64 - 1
_MULTIPLIER: Final = 0x9E3779B97F4A7C15
_FINISHER: Final = 0xD6E8FEB86659FD93

B = TypeVar("B")


def identity(uid: str) -> int:
    """A backend's number in all scores."""
    return int.from_bytes(blake2b(uid.encode(), digest_size=7).digest())


def scores(key: int, numbers: Sequence[int]) -> list[int]:
    """How much the key belongs to the backend with each of the numbers."""
    # A multiplicative hash; a function called for each number would cost several times as much.
    return [
        (((mixed := (key ^ number) * _MULTIPLIER & _MASK) ^ mixed >> 32) * _FINISHER) & _MASK
        for number in numbers
    ]


def ranked(key: int, backends: Sequence[B], numbers: Sequence[int]) -> tuple[B, ...]:
    """The key's homes among backends with these numbers, the first one first."""
    found = scores(key, numbers)
    best = nlargest(HOMES, range(len(found)), found.__getitem__)
    return tuple(backends[index] for index in best)


class Homes(Generic[B]):
    """`ranked`, remembered as long as the backends are the same."""

    def __init__(self, number: Callable[[B], int]) -> None:
        self._number = number
        self._backends: Sequence[B] = ()
        self._numbers: list[int] = []
        self._kept: dict[int, tuple[B, ...]] = {}

    def of(self, key: int, backends: Sequence[B]) -> tuple[B, ...]:
        """The key's homes among these; the sequence must not change once it was given."""
        if backends is not self._backends or len(self._kept) >= _KEPT:
            self._backends = backends
            self._numbers = list(map(self._number, backends))
            self._kept = {}
        found = self._kept.get(key)
        if found is None:
            self._kept[key] = found = ranked(key, backends, self._numbers)
        return found
