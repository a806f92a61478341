"""Who of those that wait is next: deficit round robin over flows, a pure data structure.

A flow is a tenant; each gets the same share of tokens while it has something waiting, however much
others send. Within a flow the higher priority goes first, then who came first.
"""

from collections import deque
from dataclasses import dataclass
from typing import Final, Generic, TypeVar

HIGH: Final = 0
NORMAL: Final = 1
LOW: Final = 2
"""Priorities."""

QUANTUM: Final = 2048
"""Tokens that a flow may send in its turn, beside what it has left of turns before."""
MOST_COST: Final = 32 * QUANTUM
"""A longer prompt counts as so many: each turn must end soon."""

T = TypeVar("T")


@dataclass(slots=True, eq=False)
class Entry(Generic[T]):
    """One that waits; `cost` in tokens."""

    item: T
    flow: object
    priority: int
    cost: int


class _Flow(Generic[T]):
    __slots__ = ("credit", "size", "waiting")

    def __init__(self) -> None:
        self.credit = 0
        self.waiting: tuple[deque[Entry[T]], ...] = (deque(), deque(), deque())
        self.size = 0

    def line(self) -> deque[Entry[T]]:
        """Where the next one stands."""
        return next(line for line in self.waiting if line)

    def last(self) -> Entry[T]:
        """Who would be served last."""
        return next(line for line in reversed(self.waiting) if line)[-1]


class FairQueue(Generic[T]):
    """Those that wait, by flow."""

    def __init__(self) -> None:
        self._flows: dict[object, _Flow[T]] = {}
        self._turns: deque[object] = deque()
        self._size = 0

    def __len__(self) -> int:
        return self._size

    def push(self, entry: Entry[T]) -> None:
        """Let one more wait."""
        flow = self._flows.get(entry.flow)
        if flow is None:
            flow = self._flows[entry.flow] = _Flow()
            self._turns.append(entry.flow)
        flow.waiting[entry.priority].append(entry)
        flow.size += 1
        self._size += 1

    def pop(self) -> Entry[T] | None:
        """Who is next; None where nobody waits."""
        while self._turns:
            key = self._turns[0]
            flow = self._flows[key]
            line = flow.line()
            cost = min(line[0].cost, MOST_COST)
            if flow.credit >= cost:
                flow.credit -= cost
                entry = line.popleft()
                self._left(key, flow)
                return entry
            flow.credit += QUANTUM
            self._turns.rotate(-1)
        return None

    def remove(self, entry: Entry[T]) -> bool:
        """One waits no more; False where it was served already."""
        flow = self._flows.get(entry.flow)
        if flow is None or entry not in flow.waiting[entry.priority]:
            return False
        flow.waiting[entry.priority].remove(entry)
        self._left(entry.flow, flow)
        return True

    def ahead(self, flow: object) -> int:
        """How many wait in this flow."""
        found = self._flows.get(flow)
        return found.size if found else 0

    def victim(self, newcomer: object) -> Entry[T] | None:
        """Who must make room for one more of a flow: the last of the longest flow.

        None where the newcomer's own flow is as long as any: it may not push others out.
        """
        longest = max(self._flows.items(), key=lambda item: item[1].size, default=None)
        if longest is None or longest[1].size <= self.ahead(newcomer) + 1:
            return None
        return longest[1].last()

    def _left(self, key: object, flow: _Flow[T]) -> None:
        flow.size -= 1
        self._size -= 1
        if flow.size == 0:
            # Its credit goes with it: who has nothing to send saves nothing up.
            del self._flows[key]
            self._turns.remove(key)
