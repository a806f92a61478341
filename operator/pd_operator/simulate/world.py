"""The simulation: requests go through prefillers and decoders while a policy scales both."""

import heapq
import random
from itertools import count

from pd_operator.simulate.proxy import SimulatedProxy
from pd_operator.simulate.setting import Look, Routing, Run, Scaling, Setting, Tiers, tpot
from pd_operator.simulate.tier import Decoder, Job, Prefiller
from pd_operator.simulate.traces import Trace


class World:
    """One run of a trace. Deterministic."""

    def __init__(self, trace: Trace, setting: Setting, policy: Scaling) -> None:
        self._trace, self._setting, self._policy = trace, setting, policy
        self._numbers = count()
        self._order = count()
        self._turn = count()
        self._draw = random.Random(setting.seed)  # noqa: S311 - a simulation, nothing secret
        self._now = 0.0
        self._proxy = SimulatedProxy()
        self._events: list[tuple[float, int, str, object, object, int]] = []
        self._prefillers = [Prefiller(next(self._numbers), 0.0) for _ in range(setting.prefill)]
        self._decoders = [self._decoder(0.0) for _ in range(setting.decode)]
        self._wanted = [setting.prefill, setting.decode]
        self._serving: list[Prefiller] | None = None
        self._decoding: list[Decoder] | None = None
        self._held: list[Job] = []
        self._run = Run(initial={"prefill": setting.prefill, "decode": setting.decode})

    def run(self) -> Run:
        """Play the whole trace, and until everything is answered."""
        for number, request in enumerate(self._trace):
            self._at(request.time, "arrive", Job(number, request), None)
        horizon = self._trace[-1].time
        self._at(0.0, "tick", None, None)
        self._next_failure()
        open_jobs = len(self._trace)
        last = 0.0
        while open_jobs and self._events:
            self._now, _, kind, subject, detail, attempt = heapq.heappop(self._events)
            if last < horizon:
                pods = len(self._prefillers) + len(self._decoders)
                self._run.pod_seconds += (min(self._now, horizon) - last) * pods
                last = self._now
            if kind == "tick":
                self._tick()
            elif kind == "ready":
                self._release()
            elif kind == "fail":
                self._fail()
            elif isinstance(subject, Decoder):
                if detail == subject.event:
                    open_jobs -= self._step(subject)
            elif not isinstance(subject, Job) or subject.attempt != attempt:
                continue
            elif kind == "arrive":
                self._arrive(subject)
            elif isinstance(detail, Prefiller):
                self._prefilled(subject, detail)
            else:
                self._join(subject)
        self._run.seconds = horizon
        return self._run

    def _at(
        self, time: float, kind: str, subject: object, detail: object, attempt: int = 0
    ) -> None:
        heapq.heappush(self._events, (time, next(self._order), kind, subject, detail, attempt))

    def _decoder(self, ready_at: float) -> Decoder:
        setting = self._setting
        return Decoder(next(self._numbers), ready_at, setting.latency, setting.kv_limit)

    def _arrive(self, job: Job) -> None:
        self._run.jobs.append(job)
        self._proxy.arrived()
        self._dispatch(job)

    def _dispatch(self, job: Job) -> None:
        ready = self._serving
        if ready is None:
            ready = [p for p in self._prefillers if p.ready_at <= self._now and not p.draining]
            self._serving = ready
        if not ready:
            self._held.append(job)
            return
        chosen = self._choose(ready)
        seconds = self._setting.latency.prefill(job.request.prompt)
        done = chosen.take(self._now, job, seconds)
        self._at(done, "prefilled", job, chosen, job.attempt)

    def _choose(self, ready: list[Prefiller]) -> Prefiller:
        if len(ready) == 1:
            return ready[0]
        if self._setting.routing is Routing.ROUND_ROBIN:
            return ready[next(self._turn) % len(ready)]
        one, two = self._draw.sample(ready, 2)
        return one if one.pending <= two.pending else two

    def _changed(self) -> None:
        """Which pods serve is to be looked up anew."""
        self._serving = self._decoding = None

    def _release(self) -> None:
        self._changed()
        held, self._held = self._held, []
        for job in held:
            self._dispatch(job)

    def _prefilled(self, job: Job, prefiller: Prefiller) -> None:
        del prefiller.jobs[job.number]
        request = job.request
        seconds = self._setting.latency.prefill(request.prompt)
        self._proxy.prefilled(request.prompt, self._now - request.time, seconds)
        transfer = self._setting.transfer_per_token * request.prompt
        self._at(self._now + transfer, "join", job, None, job.attempt)
        if prefiller.draining:
            self._sweep()

    def _join(self, job: Job) -> None:
        ready = self._decoding
        if ready is None:
            ready = [d for d in self._decoders if d.ready_at <= self._now and not d.draining]
            self._decoding = ready
        if not ready:
            self._at(self._now + 1.0, "join", job, None, job.attempt)
            return
        chosen = min(ready, key=lambda d: (d.load, d.number))
        chosen.advance(self._now)
        chosen.waiting.append(job)
        self._admit(chosen)

    def _admit(self, decoder: Decoder) -> None:
        for job in decoder.admit():
            if job.first_token is None:
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
        if done and decoder.draining:
            self._sweep()
        return len(done)

    def _sweep(self) -> None:
        self._prefillers = [p for p in self._prefillers if not p.draining or p.jobs]
        self._decoders = [d for d in self._decoders if not d.draining or d.load > 0]

    def _next_failure(self) -> None:
        if self._setting.fail_every is not None:
            wait = self._draw.expovariate(1 / self._setting.fail_every)
            self._at(self._now + wait, "fail", None, None)

    def _fail(self) -> None:
        """One ready pod is gone at once; another one starts for it."""
        self._next_failure()
        pods: list[Prefiller | Decoder] = [*self._prefillers, *self._decoders]
        pods = [pod for pod in pods if pod.ready_at <= self._now]
        if not pods:
            return
        pod = self._draw.choice(pods)
        if isinstance(pod, Prefiller):
            self._prefillers.remove(pod)
            lost = list(pod.jobs.values())
        else:
            self._decoders.remove(pod)
            pod.event += 1
            lost = pod.jobs()
            for _ in lost:
                self._proxy.again()
        self._changed()
        if not pod.draining:
            self._grow(int(isinstance(pod, Prefiller)), int(isinstance(pod, Decoder)))
        for job in lost:
            job.attempt += 1
            self._dispatch(job)

    def _tick(self) -> None:
        now = self._now
        prefill = [p for p in self._prefillers if not p.draining]
        decode = [d for d in self._decoders if not d.draining]
        serving = [p for p in prefill if p.ready_at <= now]
        decoding = [d for d in decode if d.ready_at <= now]
        tiers = Tiers(
            len(prefill),
            len(decode),
            len(serving),
            len(decoding),
            tuple(p.backlog(now) for p in serving),
            tuple(d.step() for d in decoding),
        )
        pods = len(self._prefillers) + len(self._decoders)
        self._run.looks.append(
            Look(now, len(prefill), len(decode), len(serving), len(decoding), pods)
        )
        wanted = self._policy.tick(now, self._proxy.sample(now), tiers)
        self._run.over_budget += sum(wanted) > self._setting.budget
        for index, name in enumerate(("prefill", "decode")):
            if wanted[index] != self._wanted[index]:
                self._run.changes.append((now, name, self._wanted[index], wanted[index]))
                self._wanted[index] = wanted[index]
        # Least work first: what is still starting has none.
        prefill.sort(key=lambda p: (p.ready_at <= now, p.free_at))
        for prefiller in prefill[: max(0, len(prefill) - wanted[0])]:
            prefiller.draining = True
        decode.sort(key=lambda d: (d.ready_at <= now, d.load))
        for decoder in decode[: max(0, len(decode) - wanted[1])]:
            decoder.draining = True
        self._sweep()
        self._grow(wanted[0] - len(prefill), wanted[1] - len(decode))
        self._changed()
        self._at(now + self._policy.interval, "tick", None, None)

    def _grow(self, prefill: int, decode: int) -> None:
        for tier, pods in (("prefill", prefill), ("decode", decode)):
            ready_at = self._setting.ready_at(tier, self._now)
            for _ in range(pods):
                if len(self._prefillers) + len(self._decoders) >= self._setting.budget:
                    return
                if tier == "prefill":
                    self._prefillers.append(Prefiller(next(self._numbers), ready_at))
                else:
                    self._decoders.append(self._decoder(ready_at))
            if pods > 0:
                self._at(ready_at, "ready", None, None)
