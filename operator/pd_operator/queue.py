"""A keyed work queue: one run in flight per key, coalescing, delays, back-off."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

_LOG: Final = logging.getLogger(__name__)
_RANDOM: Final = random.SystemRandom()

Key = tuple[str, str]
"""Namespace and name."""


@dataclass(frozen=True)
class Again:
    """What a run wants next: another one `after` so many seconds, and whether it failed.

    A failed run is repeated with back-off, but not before `after`.
    """

    after: float | None = None
    failed: bool = False


class Queue:
    """Runs `work` for the keys that were added, at most `workers` at a time.

    A key added while it waits is one run, at the earlier time; added while it runs, it runs once
    more. Failures back off from `base` to `limit` seconds, with jitter.
    """

    def __init__(
        self,
        work: Callable[[Key], Awaitable[Again]],
        workers: int = 8,
        base: float = 1.0,
        limit: float = 300.0,
    ) -> None:
        self._work = work
        self._workers = workers
        self._base = base
        self._limit = limit
        self._timers: dict[Key, asyncio.TimerHandle] = {}
        self._ready: asyncio.Queue[Key] = asyncio.Queue()
        self._queued: set[Key] = set()
        self._running: set[Key] = set()
        self._again: set[Key] = set()
        self._failures: dict[Key, int] = {}
        self._idle = asyncio.Event()
        self._idle.set()
        self._stopping = False
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def depth(self) -> int:
        """Keys that are due and not done yet."""
        return len(self._queued) + len(self._running)

    def start(self) -> None:
        """Start the workers; needs a running loop."""
        self._tasks = [
            asyncio.create_task(self._serve(), name=f"worker {number}")
            for number in range(self._workers)
        ]

    def add(self, key: Key, delay: float = 0.0) -> None:
        """Have a key run in `delay` seconds, or when it is due already if that is earlier."""
        if self._stopping:
            return
        if delay <= 0:
            self._fire(key)
            return
        loop = asyncio.get_running_loop()
        when = loop.time() + delay
        timer = self._timers.get(key)
        if timer is not None:
            if timer.when() <= when:
                return
            timer.cancel()
        self._timers[key] = loop.call_at(when, self._fire, key)

    def forget(self, key: Key) -> None:
        """Drop what waits for a key that is gone, and its failures."""
        self._failures.pop(key, None)
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()

    async def idle(self) -> None:
        """Wait until nothing is due and nothing runs; keys with a delay may remain."""
        await self._idle.wait()

    async def stop(self, grace: float) -> None:
        """Take no more keys, let running ones end for `grace` seconds, then cancel them."""
        self._stopping = True
        for timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        while not self._ready.empty():
            self._queued.discard(self._ready.get_nowait())
        self._rest()
        try:
            async with asyncio.timeout(grace):
                await self._idle.wait()
        except TimeoutError:
            _LOG.warning("cancelled reconciles that did not end in %.0f s", grace)
        await self.cancel()

    async def cancel(self) -> None:
        """Stop at once, in the middle of what runs."""
        self._stopping = True
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _fire(self, key: Key) -> None:
        timer = self._timers.pop(key, None)
        if timer is not None:
            timer.cancel()
        if key in self._running:
            self._again.add(key)
        elif key not in self._queued:
            self._queued.add(key)
            self._idle.clear()
            self._ready.put_nowait(key)

    def _rest(self) -> None:
        if not self._queued and not self._running:
            self._idle.set()

    async def _serve(self) -> None:
        while True:
            key = await self._ready.get()
            self._queued.discard(key)
            self._running.add(key)
            again = Again(failed=True)
            try:
                again = await self._work(key)
            except Exception:
                # A worker must outlive whatever one PDDeployment makes of it.
                _LOG.exception("reconcile of %s/%s failed unexpectedly", *key)
            finally:
                self._running.discard(key)
                self._rest_or_rerun(key, again)

    def _rest_or_rerun(self, key: Key, again: Again) -> None:
        if again.failed:
            failures = self._failures.get(key, 0) + 1
            self._failures[key] = failures
            self.add(key, max(again.after or 0.0, self._backoff(failures)))
        else:
            self._failures.pop(key, None)
            if again.after is not None:
                self.add(key, again.after)
        if key in self._again:
            self._again.discard(key)
            if not self._stopping:
                self._fire(key)
        self._rest()

    def _backoff(self, failures: int) -> float:
        # 2**30 s is beyond every limit; a larger power would only overflow.
        delay = min(self._limit, self._base * 2.0 ** min(failures - 1, 30))
        return delay * _RANDOM.uniform(0.75, 1.0)
