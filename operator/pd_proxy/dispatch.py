"""From a request to its answer: chooses engines, and tries again what can be saved."""

import asyncio
from typing import Final

from pd_proxy import surface
from pd_proxy.attempt import TIMEOUT, UPSTREAM_ERROR, Context, Failure
from pd_proxy.backends import Backend, Backends
from pd_proxy.body import Completion
from pd_proxy.budget import RetryBudget, cost
from pd_proxy.choose import Chooser
from pd_proxy.config import Routing, Timeouts
from pd_proxy.errors import ProxyError
from pd_proxy.follow import known
from pd_proxy.handoff import Handoff, Job
from pd_proxy.http.headers import find, to_client
from pd_proxy.http.upstream import Upstream
from pd_proxy.log import log
from pd_proxy.orphans import Orphans
from pd_proxy.routing.local import Observed, Timed, local, only_text
from pd_proxy.routing.prompt import NO_PROMPT, Prompt, prompt_of
from pd_shared import labels

LOCAL_PREFILL: Final = "local_prefill"
"""The fallback's reason where a decoder computes a prompt because that is sooner done."""

DISPATCHES: Final = 3
"""Times that a request is dispatched at most, one more by a decoder alone not counted."""
_LONGEST_PAUSE: Final = 1.0


class NoDecoderError(ProxyError):
    """There is no decoder that a request could be sent to."""


class Dispatcher:
    """Runs jobs; one for the whole proxy."""

    def __init__(
        self, context: Context, backends: Backends, timeouts: Timeouts, routing: Routing
    ) -> None:
        self._context = context
        self._backends = backends
        self._timeouts = timeouts
        self._routing = routing
        self._session_header = routing.session_header.encode()
        self._chooser = Chooser(backends)
        self._observed = Observed()
        self._handoff = Handoff(context, timeouts, Orphans(context, backends))
        self.budget = RetryBudget()

    async def run(self, job: Job) -> str:
        """Answer the call; returns the outcome. ProxyError where no engine could answer."""
        tokens = cost(job.measure.size)
        self.budget.earn(tokens)
        end = job.measure.arrived + job.patience
        pauses = 0
        while True:
            prefiller, decoder = self._choose(job)
            if decoder is None:
                await self._wait_for_decoder(job, end)
                continue
            if prefiller is not None and not await known(prefiller, self._timeouts.bootstrap):
                prefiller.failed(self._context.now())
                continue
            now = self._context.now()
            decoder.chosen(now)
            if prefiller is not None:
                prefiller.chosen(now)
            # Those that choose while this one connects must see that it has chosen.
            chosen = [backend for backend in (prefiller, decoder) if backend is not None]
            for backend in chosen:
                backend.in_flight += 1
            try:
                legs = await self._connect(job, prefiller, decoder)
            finally:
                for backend in chosen:
                    backend.in_flight -= 1
            if legs is None:
                if self._context.now() >= end:
                    return self._give_up(job)
                pauses += 1
                await self._backends.changed(min(_LONGEST_PAUSE, 0.02 * 2 ** min(pauses, 6)))
                continue
            self._count_fallback(job, prefiller, decoder)
            job.dispatches += 1
            job.measure.attempts += 1
            if job.prompt is not None:
                self._learn(job, job.prompt, prefiller, decoder)
            result = await self._handoff.run(job, prefiller, decoder, legs)
            if isinstance(result, str):
                return result
            job.failure = result
            if self._context.now() >= end or not self._again(job, result, tokens):
                return self._give_up(job)

    def wants_prefill(self, body: Completion | None) -> bool:
        """Whether a prefiller is to read this prompt, as it looks now."""
        if body is not None:
            for prefillers in self._backends.prefillers.values():
                protocol = prefillers[0].protocol
                return protocol is not None and protocol.obstacle(body) is None
        return False

    def _choose(self, job: Job) -> tuple[Backend | None, Backend | None]:
        now = self._context.now()
        if job.completion is None:
            return None, self._chooser.any_decoder(job.tried, now)
        prompt = self._prompt(job, job.completion)
        if job.alone is None:
            prefiller, decoder = self._chooser.pair(prompt, job.tried, now)
            if prefiller is None or prefiller.protocol is None:
                return None, decoder
            job.alone = prefiller.protocol.obstacle(job.completion)
            if job.alone is None:
                if decoder is None or not self._local(job.completion, prompt, prefiller, decoder):
                    return prefiller, decoder
                job.alone = LOCAL_PREFILL
                return None, decoder
        return None, self._chooser.alone(prompt, job.tried, now)

    def _prompt(self, job: Job, body: Completion) -> Prompt:
        """What the choice needs of the prompt: nothing where there is no choice."""
        if not self._chooser.choice and not self._routing.local_prefill:
            return NO_PROMPT
        if job.prompt is None:
            session = find(job.call.request.headers, self._session_header)
            fields = body.fields
            job.prompt = prompt_of(fields, body.chat, session, self._routing.prefix_aware)
        return job.prompt

    def _local(
        self, body: Completion, prompt: Prompt, prefiller: Backend, decoder: Backend
    ) -> bool:
        """Whether the decoder had better compute the prompt itself."""
        if not self._routing.local_prefill or prompt.size == 0:
            return False
        if body.chat and not only_text(body.fields.get("messages")):
            return False
        return local(
            self._chooser.left(decoder, prompt),
            prefiller.queued + self._chooser.left(prefiller, prompt),
            self._routing.local_prefill_tokens,
            self._observed.speeds(self._context.now()),
        )

    def _learn(self, job: Job, prompt: Prompt, prefiller: Backend | None, decoder: Backend) -> None:
        """Remember who has this prompt, and what its dispatch costs."""
        chooser = self._chooser
        if self._routing.local_prefill and job.completion is not None and prompt.size:
            where = prefiller or decoder
            job.timed = Timed(
                self._observed,
                pair=prefiller is not None,
                stream=job.completion.stream,
                size=prompt.size,
                work=where.queued + chooser.left(where, prompt),
                now=self._context.now(),
            )
            chooser.answered_by(decoder, prompt)
        if prefiller is not None:
            chooser.sent(prefiller, prompt)

    async def _wait_for_decoder(self, job: Job, end: float) -> None:
        """What was dispatched once waits for a decoder; what was not is refused at once."""
        left = end - self._context.now()
        if job.failure is None or left <= 0:
            raise NoDecoderError(503, "no decoder is ready", b"retry-after: 5\r\n")
        await self._backends.changed(left)

    async def _connect(
        self, job: Job, prefiller: Backend | None, decoder: Backend
    ) -> tuple[Upstream, Upstream | None] | None:
        """Connections to both, before either is sent anything: no work is begun in vain."""
        decode = await self._open(job, decoder)
        if decode is None:
            return None
        if prefiller is None:
            return decode, None
        try:
            prefill = await self._open(job, prefiller)
        except asyncio.CancelledError:
            decoder.pool.give_back(decode)
            raise
        if prefill is None:
            decoder.pool.give_back(decode)
            return None
        if not decode.usable:  # lost while the other one was opened
            decode = await self._open(job, decoder)
            if decode is None:
                prefiller.pool.give_back(prefill)
                return None
        return decode, prefill

    async def _open(self, job: Job, backend: Backend) -> Upstream | None:
        upstream = backend.pool.take() or await self._handoff.reach(backend)
        if upstream is None:
            job.tried.add(backend)
            job.failure = Failure(f"{backend.pod.tier}_connect", backend)
            self._context.metrics.retries.add(job.failure.reason)
        return upstream

    def _count_fallback(self, job: Job, prefiller: Backend | None, decoder: Backend) -> None:
        if prefiller is not None or decoder.whole:
            return
        if job.completion is not None:
            reason = job.alone or "no_prefiller"
        elif job.call.request.path in surface.GENERATING:
            reason = "endpoint"
        else:
            return
        if job.fallback != reason:
            job.fallback = job.measure.fallback = reason
            self._context.metrics.fallbacks.add(reason)

    def _again(self, job: Job, failure: Failure, tokens: int) -> bool:
        """Whether to dispatch once more after this failure."""
        log("warning", "attempt failed", reason=failure.reason, request=job.request_id.decode())
        if failure.backend is not None:
            job.tried.add(failure.backend)
        pair_is_done = job.dispatches >= DISPATCHES
        of_prefill = failure.backend is not None and failure.backend.pod.tier == labels.PREFILLER
        alone = failure.alone or (of_prefill and _recomputes(failure.backend))
        if alone or (pair_is_done and of_prefill and job.alone is None):
            job.alone = failure.reason if alone else "prefill_failed"
        elif pair_is_done:
            return False
        if not alone and not self.budget.spend(tokens):
            return False
        self._context.metrics.retries.add(failure.reason)
        return True

    def _give_up(self, job: Job) -> str:
        """The last failure becomes the answer: the engine's own words where there are any."""
        failure = job.failure or Failure("unknown")
        call = job.call
        line = b"x-request-id: %b\r\n" % job.request_id
        answer = failure.answer
        if answer is not None:
            call.respond(answer.status, to_client(answer.headers) + line, answer.body)
            return UPSTREAM_ERROR
        late = failure.outcome == TIMEOUT
        message = "the engines did not answer in time" if late else "no engine could answer"
        call.respond_error(ProxyError(504 if late else 502, f"{message} ({failure.reason})"), line)
        return failure.outcome


def _recomputes(prefiller: Backend | None) -> bool:
    """Whether decoders do as well without this prefiller."""
    return (
        prefiller is not None and prefiller.protocol is not None and prefiller.protocol.recomputes
    )
