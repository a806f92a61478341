"""Which backends have the KV cache of which prompts' beginnings, as far as this proxy knows."""

from collections.abc import Hashable, Sequence
from typing import Final, Generic, TypeVar

from pd_proxy.routing.prompt import ENDS

MOST_BLOCKS: Final = 8192
"""Blocks remembered of one backend: at least 4 MiB of text, a million tokens."""
ALL_BLOCKS: Final = 262_144
"""Blocks remembered of all backends together: about 60 MiB."""
_MATCHES: Final = 4
"""Backends that are told of for one prompt: more would make no better choice."""

B = TypeVar("B", bound=Hashable)


class Prefixes(Generic[B]):
    """A table of bounded size; each backend forgets what it has not seen for the longest.

    The engines' own eviction is not known: what an engine has forgotten earlier than this table
    is computed again.
    """

    def __init__(self, most: int = MOST_BLOCKS, together: int = ALL_BLOCKS) -> None:
        self._most = most
        self._together = together
        self._of: dict[B, dict[int, None]] = {}
        """Blocks of each backend, the most recently seen last."""
        self._where: dict[int, tuple[B, ...]] = {}

    def __len__(self) -> int:
        return sum(map(len, self._of.values()))

    def learn(self, backend: B, blocks: Sequence[int]) -> None:
        """The backend has computed, or computes now, the prompt with these blocks."""
        known = self._of.setdefault(backend, {})
        # The beginning last: it outlives what follows it, which is of no use alone.
        for block in reversed(blocks):
            if block in known:
                del known[block]
            else:
                self._where[block] = (*self._where.get(block, ()), backend)
            known[block] = None
        limit = min(self._most, self._together // len(self._of))
        while len(known) > limit:
            self._drop(backend, known)

    def matches(self, blocks: Sequence[int]) -> list[tuple[B, int]]:
        """Backends that have the most of this prompt, with the bytes of it; the best first."""
        found: dict[B, int] = {}
        wanted = min(_MATCHES, len(self._of))
        where, last = self._where, None
        for index in range(len(blocks) - 1, -1, -1):
            backends = where.get(blocks[index])
            if backends is None or backends == last:
                continue
            last = backends
            for backend in backends:
                if backend not in found:
                    found[backend] = ENDS[index]
                    if len(found) == wanted:
                        return list(found.items())
        return list(found.items())

    def had(self, backend: B, blocks: Sequence[int]) -> int:
        """Bytes of this prompt that the backend has."""
        known = self._of.get(backend, {})
        for index in range(len(blocks) - 1, -1, -1):
            if blocks[index] in known:
                return ENDS[index]
        return 0

    def forget(self, backend: B) -> None:
        """The backend's process is gone, and its KV cache with it."""
        for block in self._of.pop(backend, ()):
            self._remove(backend, block)

    def _drop(self, backend: B, known: dict[int, None]) -> None:
        oldest = next(iter(known))
        del known[oldest]
        self._remove(backend, oldest)

    def _remove(self, backend: B, block: int) -> None:
        left = tuple(other for other in self._where[block] if other is not backend)
        if left:
            self._where[block] = left
        else:
            del self._where[block]
