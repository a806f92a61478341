"""Lets requests to the engines, so many at once; others wait for their turn, or are refused."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pd_proxy.backends import Backends
from pd_proxy.config_queue import Queue
from pd_proxy.errors import ProxyError, overloaded
from pd_proxy.fair_queue import Entry, FairQueue
from pd_proxy.memory import Memory
from pd_proxy.metrics import Metrics
from pd_proxy.pace import Pace

_ANY: Final = 1 << 60


@dataclass(frozen=True, slots=True)
class Claim:
    """What a request is, to those who decide on its turn."""

    flow: object
    """Whose it is; each gets the same share."""
    priority: int
    tokens: int
    prefill: bool
    """Whether a prefiller is to read its prompt."""
    patience: float
    """Seconds that the client is ready to wait at most."""


class Ticket:
    """A request's place among those under way; close it at the end."""

    __slots__ = ("_admission", "_open", "_prefill")

    def __init__(self, admission: "Admission", prefill: bool) -> None:
        self._admission = admission
        self._prefill = prefill
        self._open = True

    def prefilled(self) -> None:
        """It waits for a prefiller no more."""
        if self._prefill:
            self._prefill = False
            self._admission.leave(0, 1)

    def close(self) -> None:
        """It is over."""
        if self._open:
            self._open = False
            prefill, self._prefill = self._prefill, False
            self._admission.leave(1, int(prefill))


_Waiter = asyncio.Future[Ticket]


class Admission:
    """One for the whole proxy; `tick` it now and then."""

    def __init__(
        self,
        settings: Queue,
        backends: Backends,
        metrics: Metrics,
        now: Callable[[], float],
        memory: Memory,
    ) -> None:
        self._settings = settings
        self._backends = backends
        self._metrics = metrics
        self._now = now
        self._memory = memory
        self._under_way = self._prefilling = 0
        # Who needs a prefiller must not stand in the way of who needs none.
        self._paired: FairQueue[_Waiter] = FairQueue()
        self._alone: FairQueue[_Waiter] = FairQueue()
        self._pace = Pace()
        self._ended = 0
        self._most = self._most_prefilling = 0
        self._count()
        backends.on_update.append(self._changed)

    @property
    def waiting(self) -> int:
        """Requests that wait for their turn."""
        return len(self._paired) + len(self._alone)

    def retry_after(self) -> int:
        """Seconds until one more would have its turn, as it looks now."""
        return self._pace.wait(self.waiting + 1, self._now())

    def refuse(self, reason: str, message: str, status: int = 503) -> ProxyError:
        """The answer to a request that is not taken."""
        self._metrics.shed.add(reason)
        return overloaded(message, self.retry_after(), status)

    def tick(self) -> None:
        """Take down how many have ended since."""
        ended, self._ended = self._ended, 0
        self._pace.note(ended, self._now())

    def enter_at_once(self) -> Ticket | None:
        """A place, where there is one for any request and nobody waits for it."""
        if (
            self._under_way >= self._most
            or self._prefilling >= self._most_prefilling
            or self._metrics.queued
            or self._memory.scarce
        ):
            return None
        self._under_way += 1
        self._prefilling += 1
        return Ticket(self, True)

    async def enter(self, claim: Claim) -> Ticket:
        """A place, after a while; ProxyError where there will be none."""
        if self._memory.scarce:
            raise self.refuse("memory", "the proxy is short of memory; come again later")
        line = self._paired if claim.prefill else self._alone
        entry = Entry[_Waiter](
            asyncio.get_running_loop().create_future(), claim.flow, claim.priority, claim.tokens
        )
        self._make_room(claim)
        line.push(entry)
        self._metrics.queued += 1
        self._pump()
        try:
            async with asyncio.timeout(min(claim.patience, self._settings.timeout)):
                return await entry.item
        except TimeoutError:
            _withdraw(line, entry)
            raise self.refuse(
                "queue_timeout", "no engine became free in time; come again later"
            ) from None
        except BaseException:
            _withdraw(line, entry)
            raise
        finally:
            self._metrics.queued -= 1

    def leave(self, under_way: int, prefilling: int) -> None:
        """So many are not under way, or not at a prefiller, any more."""
        self._under_way -= under_way
        self._prefilling -= prefilling
        self._ended += under_way
        if self._metrics.queued:
            self._pump()

    def _count(self) -> None:
        """How many may be under way. Where there is no engine it is not for want of room."""
        prefillers = sum(map(len, self._backends.prefillers.values()))
        self._most = self._settings.per_decoder * len(self._backends.decoders) or _ANY
        self._most_prefilling = self._settings.per_prefiller * prefillers or _ANY

    def _changed(self) -> None:
        self._count()
        self._pump()

    def _has_room(self, prefill: bool) -> bool:
        return self._under_way < self._most and (
            not prefill or self._prefilling < self._most_prefilling
        )

    def _let_in(self, prefill: bool) -> Ticket:
        self._under_way += 1
        self._prefilling += prefill
        return Ticket(self, prefill)

    def _make_room(self, claim: Claim) -> None:
        """Room in the queue for one more, at the cost of who has most in it; else ProxyError."""
        if self.waiting < self._settings.size:
            return
        message = "too many requests are waiting; come again later"
        for line in sorted((self._paired, self._alone), key=len, reverse=True):
            victim = line.victim(claim.flow)
            if victim is not None:
                line.remove(victim)
                if not victim.item.done():
                    victim.item.set_exception(self.refuse("queue_share", message, 429))
                return
        raise self.refuse("queue_full", message, 429)

    def _pump(self) -> None:
        """Let in whom there is room for, from both queues in turn."""
        lines = [(self._paired, True), (self._alone, False)]
        while lines:
            line, prefill = lines.pop(0)
            if not self._has_room(prefill):
                continue
            entry = line.pop()
            if entry is None:
                continue
            if not entry.item.done():  # else it has left, and is about to say so
                entry.item.set_result(self._let_in(prefill))
            lines.append((line, prefill))


def _withdraw(line: FairQueue[_Waiter], entry: Entry[_Waiter]) -> None:
    """One does not wait any more; what it was given meanwhile goes back."""
    waiter = entry.item
    if not line.remove(entry) and not waiter.cancelled() and waiter.exception() is None:
        waiter.result().close()
