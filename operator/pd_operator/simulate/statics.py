"""Fixed splits in hindsight: what is attainable, and the cheapest one that attains as much."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

MOST: Final = (46, 18)
"""The split that stands for all that 64 pods can attain."""

Attain = Callable[[int, int], float]


@dataclass
class Statics:
    """Attainment of fixed splits of one workload, each played once.

    More prefillers never attain less, more decoders neither: the search relies on it.
    """

    attain: Attain
    known: dict[tuple[int, int], float] = field(default_factory=dict)

    def at(self, prefill: int, decode: int) -> float:
        """The part of the requests that meet both targets."""
        split = (prefill, decode)
        if split not in self.known:
            self.known[split] = self.attain(prefill, decode)
        return self.known[split]

    def attainable(self) -> float:
        """What the largest split attains."""
        return self.at(*MOST)

    def cheapest(self, attainment: float) -> tuple[int, int]:
        """The fewest pods that attain at least so much; the largest split if none does."""
        best = MOST
        for decode in range(1, MOST[1] + 1):
            high = sum(best) - decode - 1
            if high < 1:
                break
            if self.at(min(high, MOST[0]), decode) < attainment:
                continue
            low, high = 1, min(high, MOST[0])
            while low < high:
                middle = (low + high) // 2
                if self.at(middle, decode) >= attainment:
                    high = middle
                else:
                    low = middle + 1
            best = (low, decode)
        return best

    def of_pods(self, pods: int, decode: int) -> float:
        """The most that so many pods attain, with `decode` decoders or one more or less."""
        near = (d for d in (decode - 1, decode, decode + 1) if 1 <= d < pods)
        return max(self.at(min(MOST[0], pods - d), d) for d in near)
