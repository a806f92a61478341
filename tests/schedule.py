"""The order of the tests on the cluster, and which of them must share a process."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

FIRST: Final = ("leftovers", "untouched")
"""Markers of tests that run before the others, on a cluster that nothing else uses yet."""
LAST: Final = ("alone", "uninstalls")
"""Markers of tests that run behind the others: they take from under them what is shared."""
APART: Final = (*FIRST, *LAST)
"""Markers of tests that no other test may run beside."""
_GUESSES: Final = {"engine": 40.0, "cluster": 5.0}
"""Seconds of a test that has not run here yet, by its marker."""


@dataclass(frozen=True)
class Planned:
    """What the order depends on."""

    id: str
    markers: frozenset[str]
    group: str = ""
    """Tests of one group run in one process; "" for a test that is its own."""


def group(fixtures: Mapping[str, str], module: str) -> str:
    """The group of a test that uses fixtures (name to scope) in a module.

    Tests that use the shared pair count what moves between its engines, so they cannot run beside
    one another; what a module's tests share exists once in each process.
    """
    if "pair" in fixtures:
        return "pair"
    return module if "module" in fixtures.values() else ""


def order(tests: Sequence[Planned], seconds: Mapping[str, float]) -> list[int]:
    """Indices in the order to run: by marker, then the longest group first.

    `seconds` is what tests took before, by id; tests without the cluster stay as they are.
    """
    sums: defaultdict[str, float] = defaultdict(float)
    for test in tests:
        sums[test.group or test.id] += _seconds(test, seconds)

    def key(index: int) -> tuple[int, float, str, int]:
        test = tests[index]
        if "cluster" not in test.markers:
            return len(FIRST), 0.0, "", index
        name = test.group or test.id
        rank = _rank(test.markers)
        # What must come first or last keeps its written order.
        return (rank, -sums[name], name, index) if rank == len(FIRST) else (rank, 0.0, "", index)

    return sorted(range(len(tests)), key=key)


def _rank(markers: frozenset[str]) -> int:
    for i, name in enumerate(FIRST):
        if name in markers:
            return i
    for i, name in enumerate(LAST, len(FIRST) + 1):
        if name in markers:
            return i
    return len(FIRST)


def _seconds(test: Planned, seconds: Mapping[str, float]) -> float:
    if test.id in seconds:
        return seconds[test.id]
    return next((guess for name, guess in _GUESSES.items() if name in test.markers), 0.0)
