"""Whether the operator still sees the cluster."""

import time
from collections.abc import Callable


class Health:
    """Alive while an event or a resync came lately; a standby is alive by answering.

    `limit` is the seconds without any sign after which a leader counts as dead.
    """

    def __init__(self, limit: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit = limit
        self._clock = clock
        self._last: float | None = None

    def beat(self) -> None:
        """Note a sign of life; the first one makes the process a leader."""
        self._last = self._clock()

    @property
    def alive(self) -> bool:
        """Whether the process should be left running."""
        return self._last is None or self._clock() - self._last < self._limit
