"""From a request to its answer: chooses engines, and tries again what can be saved."""

import asyncio
from dataclasses import dataclass, field
from typing import Final

from pd_proxy import choose
from pd_proxy.attempt import TIMEOUT, UPSTREAM_ERROR, Attempt, Context, Failure
from pd_proxy.backends import Backend, Backends
from pd_proxy.body import Completion
from pd_proxy.budget import RetryBudget
from pd_proxy.config import Timeouts
from pd_proxy.errors import ProxyError
from pd_proxy.http.call import Call
from pd_proxy.http.headers import to_client
from pd_proxy.http.upstream import Upstream
from pd_proxy.log import log
from pd_proxy.measure import Measure
from pd_proxy.prefill import PrefillLeg
from pd_proxy.relay import Relay
from pd_shared import labels
from pd_shared import metrics as names

DISPATCHES: Final = 3
"""Times that a request is dispatched at most, one more by a decoder alone not counted."""
_LONGEST_PAUSE: Final = 1.0
_TOKENS_PER_GAP: Final = 100
_TOKENS_ASSUMED: Final = 4096
"""An answer in one piece may take `betweenTokens` for each 100 tokens, if need be for so many."""


class NoDecoderError(ProxyError):
    """There is no decoder that a request could be sent to."""


@dataclass(slots=True)
class Job:
    """A request on its way through attempts."""

    call: Call
    measure: Measure
    request_id: bytes
    headers: bytes
    """The client's header lines that engines get."""
    body: bytes
    completion: Completion | None
    """None where the path is not one of the two that pairs answer."""
    alone: str | None
    """Why a decoder alone answers; None where a pair does."""
    tried: set[Backend] = field(default_factory=set)
    dispatches: int = 0
    failure: Failure | None = None
    fallback: str | None = None


class Dispatcher:
    """Runs jobs; one for the whole proxy."""

    def __init__(self, context: Context, backends: Backends, timeouts: Timeouts) -> None:
        self._context = context
        self._backends = backends
        self._timeouts = timeouts
        self.budget = RetryBudget()

    async def run(self, job: Job) -> str:
        """Answer the call; returns the outcome. ProxyError where no engine could answer."""
        self.budget.earn()
        end = job.measure.arrived + self._timeouts.first_token
        pauses = 0
        while True:
            prefiller, decoder = self._choose(job)
            if decoder is None:
                await self._wait_for_decoder(job, end)
                continue
            if prefiller is not None and not await self._context.kv.ready(prefiller):
                prefiller.failed(self._context.now())
                continue
            legs = await self._connect(job, prefiller, decoder)
            if legs is None:
                if self._context.now() >= end:
                    return self._give_up(job)
                pauses += 1
                await self._backends.changed(min(_LONGEST_PAUSE, 0.02 * 2 ** min(pauses, 6)))
                continue
            result = await self._attempt(job, prefiller, decoder, legs)
            if isinstance(result, str):
                return result
            job.failure = result
            if self._context.now() >= end or not self._again(job, result):
                return self._give_up(job)

    def _choose(self, job: Job) -> tuple[Backend | None, Backend | None]:
        now = self._context.now()
        if job.completion is None or job.alone is not None:
            return None, choose.pick(self._backends.decoders, job.tried, now)
        return choose.pair(self._backends, job.tried, now)

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
        upstream = backend.pool.take()
        if upstream is not None:
            return upstream
        try:
            return await backend.pool.connect(self._timeouts.connect)
        except (OSError, TimeoutError):
            backend.failed(self._context.now())
            job.tried.add(backend)
            job.failure = Failure(f"{backend.pod.tier}_connect", backend)
            self._context.metrics.retries.add(job.failure.reason)
            return None

    async def _attempt(
        self,
        job: Job,
        prefiller: Backend | None,
        decoder: Backend,
        legs: tuple[Upstream, Upstream | None],
    ) -> str | Failure:
        self._count_fallback(job, prefiller)
        job.dispatches += 1
        attempt = Attempt(self._context, job.measure, decoder, prefiller)
        try:
            self._send(job, attempt, legs)
            return await attempt.done
        except BaseException:
            attempt.abort()
            raise

    def _send(self, job: Job, attempt: Attempt, legs: tuple[Upstream, Upstream | None]) -> None:
        now = self._context.now()
        request = job.call.request
        path = b"%b %b HTTP/1.1\r\n" % (request.method, request.target)
        request_id = job.request_id
        if job.dispatches > 1:
            request_id = b"%b-%d" % (request_id, job.dispatches)  # an engine may know the first
        common = b"%bx-request-id: %b\r\n" % (job.headers, request_id)
        decode_upstream, prefill_upstream = legs
        body = job.body
        proof = attempt.decoder.proof_line
        prefiller = attempt.prefiller
        if prefiller is not None and prefill_upstream is not None and job.completion is not None:
            bodies = self._context.kv.bodies(job.completion, prefiller)
            body = bodies.decode
            proof += prefiller.proof_line
            head = b"%b%b%b%bcontent-length: %d\r\n\r\n" % (
                path, prefiller.pool.host_line, common, bodies.prefill_headers, len(bodies.prefill),
            )  # fmt: skip
            prefill = PrefillLeg(
                self._context, attempt, prefill_upstream, now + self._timeouts.prefill
            )
            attempt.prefill = prefill
            job.measure.enter(names.TIER_PREFILL)
            prefill_upstream.send(prefill, head, bodies.prefill)
            if attempt.done.done():  # the connection was lost just now
                attempt.decoder.pool.give_back(decode_upstream)
                return
        else:
            job.measure.enter(names.TIER_DECODE)
        relay = Relay(
            self._context,
            attempt,
            job.call,
            decode_upstream,
            proof=b"%bx-request-id: %b\r\n" % (proof, job.request_id),
            tokens=job.completion is not None,
            deadline=self._decode_deadline(job),
            between=self._timeouts.between_tokens,
        )
        attempt.decode = relay
        head = b"%b%b%bcontent-length: %d\r\n\r\n" % (
            path, attempt.decoder.pool.host_line, common, len(body),
        )  # fmt: skip
        decode_upstream.send(relay, head, body)

    def _decode_deadline(self, job: Job) -> float:
        """When a decoder must have begun its answer; one in one piece begins at its end."""
        end = job.measure.arrived + self._timeouts.first_token
        completion = job.completion
        if completion is None or completion.stream:
            return end
        fields = completion.fields
        most = fields.get("max_completion_tokens") or fields.get("max_tokens")
        tokens = most if isinstance(most, int) else _TOKENS_ASSUMED
        return end + self._timeouts.between_tokens * (tokens // _TOKENS_PER_GAP)

    def _count_fallback(self, job: Job, prefiller: Backend | None) -> None:
        if job.completion is None or prefiller is not None:
            return
        reason = job.alone or "no_prefiller"
        if job.fallback != reason:
            job.fallback = reason
            self._context.metrics.fallbacks.add(reason)

    def _again(self, job: Job, failure: Failure) -> bool:
        """Whether to dispatch once more after this failure."""
        log("warning", "attempt failed", reason=failure.reason, request=job.request_id.decode())
        if failure.backend is not None:
            job.tried.add(failure.backend)
        pair_is_done = job.dispatches >= DISPATCHES
        of_prefill = failure.backend is not None and failure.backend.pod.tier == labels.PREFILLER
        if failure.alone or (pair_is_done and of_prefill and job.alone is None):
            job.alone = failure.reason if failure.alone else "prefill_failed"
        elif pair_is_done:
            return False
        if not failure.alone and not self.budget.spend():
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
