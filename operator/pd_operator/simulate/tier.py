"""Pods of a simulated tier: they start, become ready, serve, drain and go."""

import heapq
from collections import deque
from dataclasses import dataclass, field

from pd_operator.simulate.latency import Latency
from pd_operator.simulate.traces import Request


@dataclass(eq=False)
class Job:
    """A request on its way; times in seconds, None before they are known."""

    number: int
    request: Request
    first_token: float | None = None
    finished: float | None = None
    begun_at_token: float = 0.0
    """The decoder's token count when the request joined its batch."""
    attempt: int = 0
    """How often a pod that served it failed: events of earlier attempts are void."""


@dataclass(eq=False)
class Prefiller:
    """Prefills one prompt after the other."""

    number: int
    ready_at: float
    free_at: float = 0.0
    """When all that was given to it is done."""
    jobs: dict[int, Job] = field(default_factory=dict)
    """What it has, by number."""
    draining: bool = False

    @property
    def pending(self) -> int:
        """Requests that it has."""
        return len(self.jobs)

    def take(self, now: float, job: Job, seconds: float) -> float:
        """Queue a prompt; when it will be done."""
        self.jobs[job.number] = job
        self.free_at = max(self.free_at, now) + seconds
        return self.free_at

    def backlog(self, now: float) -> float:
        """Seconds of work that it has."""
        return max(0.0, self.free_at - now)


@dataclass(eq=False)
class Decoder:
    """Gives every request of its batch a token per step; the step's time depends on the batch.

    Time between events is a fluid: `tokens` is how many each request got since the start.
    """

    number: int
    ready_at: float
    latency: Latency
    kv_limit: float
    tokens: float = 0.0
    at: float = 0.0
    kv_prompt: float = 0.0
    """Sum of prompt tokens minus begun_at_token over the batch."""
    batch: list[tuple[float, int, Job]] = field(default_factory=list)
    """Heap by the token count at which the request ends."""
    waiting: deque[Job] = field(default_factory=deque)
    event: int = 0
    draining: bool = False

    @property
    def load(self) -> int:
        """Requests that it has."""
        return len(self.batch) + len(self.waiting)

    def kv(self) -> float:
        """KV tokens of its batch."""
        return self.kv_prompt + len(self.batch) * self.tokens

    def step(self) -> float:
        """Seconds of a decode step now."""
        return self.latency.step(len(self.batch), self.kv())

    def advance(self, now: float) -> None:
        """Let time pass up to `now`."""
        if self.batch:
            self.tokens += (now - self.at) / self.step()
        self.at = now

    def admit(self) -> list[Job]:
        """Take in what waits and fits; those that were taken in."""
        admitted: list[Job] = []
        while self.waiting:
            job = self.waiting[0]
            need = job.request.prompt + job.request.output
            if self.batch and self.kv() + need > self.kv_limit:
                break
            self.waiting.popleft()
            job.begun_at_token = self.tokens
            self.kv_prompt += job.request.prompt - self.tokens
            end = self.tokens + job.request.output
            heapq.heappush(self.batch, (end, job.number, job))
            admitted.append(job)
        return admitted

    def finish(self) -> list[Job]:
        """Let go those that have all their tokens."""
        done: list[Job] = []
        while self.batch and self.batch[0][0] <= self.tokens + 1e-6:
            _, _, job = heapq.heappop(self.batch)
            self.kv_prompt -= job.request.prompt - job.begun_at_token
            done.append(job)
        return done

    def jobs(self) -> list[Job]:
        """All that it has."""
        return [*(job for _, _, job in self.batch), *self.waiting]

    def next_end(self) -> float | None:
        """When the next request of the batch ends if nothing else happens."""
        if not self.batch:
            return None
        return self.at + max(0.0, self.batch[0][0] - self.tokens) * self.step()
