"""The simulation: requests go through prefillers and decoders while a policy scales both."""

import heapq
from dataclasses import dataclass, field
from itertools import count
from typing import Protocol

from pd_operator.autoscale.sample import ProxySample
from pd_operator.simulate.latency import Latency
from pd_operator.simulate.proxy import SimulatedProxy
from pd_operator.simulate.tier import Decoder, Job, Prefiller
from pd_operator.simulate.traces import Trace


@dataclass(frozen=True)
class Tiers:
    """Pods of both tiers: asked for, and ready (not draining)."""

    prefill: int
    decode: int
    prefill_ready: int
    decode_ready: int


class Scaling(Protocol):
    """A policy: looked at every `interval` seconds."""

    interval: float

    def tick(self, now: float, sample: ProxySample, tiers: Tiers) -> tuple[int, int]:
        """How many prefillers and decoders there should be."""


@dataclass(frozen=True)
class Setting:
    """What is simulated; times in seconds.

    `transfer_per_token` is the KV transfer's time, `kv_limit` a decoder's KV memory in tokens,
    `budget` the most GPUs (pods) at a time, counting those that drain.
    """

    latency: Latency
    startup: float
    prefill: int
    decode: int
    transfer_per_token: float = 5e-6
    kv_limit: float = 450_000.0
    budget: int = 64


@dataclass
class Run:
    """What a simulation gave."""

    jobs: list[Job] = field(default_factory=list)
    pod_seconds: float = 0.0
    changes: list[tuple[float, str, int, int]] = field(default_factory=list)
    """Time, tier, replicas before and after."""
    seconds: float = 0.0
    initial: dict[str, int] = field(default_factory=dict)


class World:
    """One run of a trace. Deterministic."""

    def __init__(self, trace: Trace, setting: Setting, policy: Scaling) -> None:
        self._trace, self._setting, self._policy = trace, setting, policy
        self._numbers = count()
        self._order = count()
        self._now = 0.0
        self._proxy = SimulatedProxy()
        self._events: list[tuple[float, int, str, object, object]] = []
        self._prefillers = [Prefiller(next(self._numbers), 0.0) for _ in range(setting.prefill)]
        self._decoders = [self._decoder(0.0) for _ in range(setting.decode)]
        self._wanted = [setting.prefill, setting.decode]
        self._held: list[Job] = []
        self._run = Run(initial={"prefill": setting.prefill, "decode": setting.decode})

    def run(self) -> Run:
        """Play the whole trace, and until everything is answered."""
        for number, request in enumerate(self._trace):
            self._at(request.time, "arrive", Job(number, request), None)
        horizon = self._trace[-1].time
        self._at(0.0, "tick", None, None)
        open_jobs = len(self._trace)
        last = 0.0
        while open_jobs and self._events:
            self._now, _, kind, subject, detail = heapq.heappop(self._events)
            self._run.pod_seconds += (min(self._now, horizon) - min(last, horizon)) * (
                len(self._prefillers) + len(self._decoders)
            )
            last = self._now
            if kind == "tick":
                self._tick()
            elif kind == "ready":
                self._release()
            elif isinstance(subject, Job) and kind == "arrive":
                self._arrive(subject)
            elif isinstance(subject, Job) and isinstance(detail, Prefiller):
                self._prefilled(subject, detail)
            elif isinstance(subject, Job) and kind == "join":
                self._join(subject)
            elif isinstance(subject, Decoder) and detail == subject.event:
                open_jobs -= self._step(subject)
        self._run.seconds = horizon
        return self._run

    def _at(self, time: float, kind: str, subject: object, detail: object) -> None:
        heapq.heappush(self._events, (time, next(self._order), kind, subject, detail))

    def _decoder(self, ready_at: float) -> Decoder:
        setting = self._setting
        return Decoder(next(self._numbers), ready_at, setting.latency, setting.kv_limit)

    def _arrive(self, job: Job) -> None:
        self._run.jobs.append(job)
        self._proxy.arrived()
        self._dispatch(job)

    def _dispatch(self, job: Job) -> None:
        ready = [p for p in self._prefillers if p.ready_at <= self._now and not p.draining]
        if not ready:
            self._held.append(job)
            return
        chosen = min(ready, key=lambda p: (max(p.free_at, self._now), p.number))
        done = chosen.take(self._now, self._setting.latency.prefill(job.request.prompt))
        self._at(done, "prefilled", job, chosen)

    def _release(self) -> None:
        held, self._held = self._held, []
        for job in held:
            self._dispatch(job)

    def _prefilled(self, job: Job, prefiller: Prefiller) -> None:
        prefiller.pending -= 1
        self._proxy.prefilled(job.request.prompt, self._now - job.request.time)
        transfer = self._setting.transfer_per_token * job.request.prompt
        self._at(self._now + transfer, "join", job, None)
        self._sweep()

    def _join(self, job: Job) -> None:
        ready = [d for d in self._decoders if d.ready_at <= self._now and not d.draining]
        if not ready:
            self._at(self._now + 1.0, "join", job, None)
            return
        chosen = min(ready, key=lambda d: (d.load, d.number))
        chosen.advance(self._now)
        chosen.waiting.append(job)
        self._admit(chosen)

    def _admit(self, decoder: Decoder) -> None:
        for job in decoder.admit():
            job.first_token = self._now + decoder.step()
            self._proxy.started(job.first_token - job.request.time)
        decoder.event += 1
        end = decoder.next_end()
        if end is not None:
            self._at(end, "step", decoder, decoder.event)

    def _step(self, decoder: Decoder) -> int:
        decoder.advance(self._now)
        done = decoder.finish()
        for job in done:
            job.finished = self._now
            tokens = job.request.output
            self._proxy.ended(tokens, tpot(job))
        self._admit(decoder)
        if done:
            self._sweep()
        return len(done)

    def _sweep(self) -> None:
        self._prefillers = [p for p in self._prefillers if not p.draining or p.pending > 0]
        self._decoders = [d for d in self._decoders if not d.draining or d.load > 0]

    def _tick(self) -> None:
        now = self._now
        prefill = [p for p in self._prefillers if not p.draining]
        decode = [d for d in self._decoders if not d.draining]
        tiers = Tiers(
            len(prefill),
            len(decode),
            sum(1 for p in prefill if p.ready_at <= now),
            sum(1 for d in decode if d.ready_at <= now),
        )
        wanted = self._policy.tick(now, self._proxy.sample(), tiers)
        for index, name in enumerate(("prefill", "decode")):
            if wanted[index] != self._wanted[index]:
                self._run.changes.append((now, name, self._wanted[index], wanted[index]))
                self._wanted[index] = wanted[index]
        self._grow(wanted[0] - len(prefill), wanted[1] - len(decode))
        # Least work first: what is still starting has none.
        prefill.sort(key=lambda p: (p.ready_at <= now, p.free_at))
        for prefiller in prefill[: max(0, len(prefill) - wanted[0])]:
            prefiller.draining = True
        decode.sort(key=lambda d: (d.ready_at <= now, d.load))
        for decoder in decode[: max(0, len(decode) - wanted[1])]:
            decoder.draining = True
        self._sweep()
        self._at(now + self._policy.interval, "tick", None, None)

    def _grow(self, prefill: int, decode: int) -> None:
        ready_at = self._now + self._setting.startup
        for _ in range(prefill):
            if self._full():
                return
            self._prefillers.append(Prefiller(next(self._numbers), ready_at))
        for _ in range(decode):
            if self._full():
                return
            self._decoders.append(self._decoder(ready_at))
        self._at(ready_at, "ready", None, None)

    def _full(self) -> bool:
        return len(self._prefillers) + len(self._decoders) >= self._setting.budget


def tpot(job: Job) -> float | None:
    """Seconds per token after the first; None for a single token."""
    if job.first_token is None or job.finished is None or job.request.output < 2:
        return None
    return max(0.0, job.finished - job.first_token) / (job.request.output - 1)
