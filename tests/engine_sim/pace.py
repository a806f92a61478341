"""How long a simulated engine takes: one prefill at a time, all sequences in one batch."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass


@dataclass(frozen=True)
class Pace:
    """Seconds. A prefill of n tokens takes `base + per_token * n + per_square * n * n`."""

    base: float = 0.0
    per_token: float = 0.0
    per_square: float = 0.0
    step: float = 0.0
    """A step of the batch: one token for each sequence."""
    per_sequence: float = 0.0
    """What each running sequence adds to it."""

    def prefill(self, tokens: int) -> float:
        return self.base + self.per_token * tokens + self.per_square * tokens * tokens

    def decode(self, running: int) -> float:
        return self.step + self.per_sequence * running


@dataclass
class Times:
    """When a request's phases began, by time.perf_counter()."""

    arrived: float
    scheduled: float = 0.0
    first_token: float = 0.0


class Batch:
    """At most so many sequences run; the others wait in order of arrival."""

    def __init__(self, pace: Pace, most: int) -> None:
        self.pace = pace
        self.running = 0
        self.waiting = 0
        self._slots = asyncio.Semaphore(most)
        self._prefills = asyncio.Lock()

    @asynccontextmanager
    async def place(self) -> AsyncIterator[None]:
        """A place in the batch, once there is one."""
        self.waiting += 1
        try:
            await self._slots.acquire()
        finally:
            self.waiting -= 1
        self.running += 1
        try:
            yield
        finally:
            self.running -= 1
            self._slots.release()

    async def prefill(self, tokens: int) -> None:
        """Compute so many tokens of a prompt, after the prompts before it."""
        seconds = self.pace.prefill(tokens) if tokens else 0.0
        if seconds:
            async with self._prefills:
                await asyncio.sleep(seconds)

    async def step(self) -> None:
        """Until the batch's next token."""
        await asyncio.sleep(self.pace.decode(self.running))


def now() -> float:
    return time.perf_counter()
