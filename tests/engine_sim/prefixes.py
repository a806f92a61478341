"""An engine's own prefix cache: whole blocks of prompts that it has the KV of."""

import hashlib
from collections import OrderedDict


class Prefixes:
    """Least recently used blocks go first; `block` is a number of tokens, 0 for no cache."""

    def __init__(self, block: int, room: int) -> None:
        self._block = block
        self._most = room // block if block else 0
        self._known: OrderedDict[str, None] = OrderedDict()

    def _keys(self, prompt: str) -> list[str]:
        words = prompt.split()
        if not self._block:
            return []
        ends = range(self._block, len(words) + 1, self._block)
        return [hashlib.sha256(" ".join(words[:end]).encode()).hexdigest() for end in ends]

    def hit(self, prompt: str) -> int:
        """Tokens whose KV is there; the last token is always computed."""
        found = 0
        for key in self._keys(prompt):
            if key not in self._known:
                break
            self._known.move_to_end(key)
            found += self._block
        return min(found, max(0, len(prompt.split()) - 1) // max(1, self._block) * self._block)

    def add(self, prompt: str) -> None:
        for key in self._keys(prompt):
            self._known[key] = None
            self._known.move_to_end(key)
        while len(self._known) > self._most:
            self._known.popitem(last=False)
