"""One coarse timer for all deadlines: setting one costs an assignment."""

import asyncio
from typing import Final, Protocol

NEVER: Final = float("inf")


class Watched(Protocol):
    """Something with a deadline, in the loop's time; NEVER for none."""

    deadline: float

    def expired(self) -> None:
        """The deadline has passed; called again at the next step unless it was moved."""


class Deadlines:
    """Looks every `step` seconds at all that is watched.

    A timer of the loop for each phase of each request would cost more than the phases' own work.
    """

    def __init__(self, step: float) -> None:
        self._step = step
        self._watched: set[Watched] = set()
        self._loop = asyncio.get_running_loop()
        self._handle = self._loop.call_later(step, self._look)
        self.add = self._watched.add
        self.discard = self._watched.discard

    def close(self) -> None:
        """Look no more."""
        self._handle.cancel()

    def _look(self) -> None:
        self._handle = self._loop.call_later(self._step, self._look)
        now = self._loop.time()
        for watched in [w for w in self._watched if w.deadline <= now]:
            # One that expires may end others.
            if watched in self._watched:
                watched.expired()
