"""One attempt, from what the engines are sent to its end."""

import asyncio
from dataclasses import dataclass, field
from typing import Final

from pd_proxy.attempt import OK, Attempt, Context, Failure
from pd_proxy.backends import Backend
from pd_proxy.body import Completion
from pd_proxy.config import Timeouts
from pd_proxy.http.call import Call
from pd_proxy.http.upstream import Upstream
from pd_proxy.measure import Measure
from pd_proxy.orphans import Orphans
from pd_proxy.prefill import PrefillLeg
from pd_proxy.protocols.base import Bodies, FlawError, KvProtocol
from pd_proxy.relay import Relay
from pd_proxy.routing.local import Timed
from pd_proxy.routing.prompt import Prompt
from pd_shared import metrics as names

_TOKENS_PER_GAP: Final = 100
_TOKENS_ASSUMED: Final = 4096
"""An answer in one piece may take `betweenTokens` for each 100 tokens, if need be for so many."""


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
    patience: float
    """Seconds from its arrival in which its answer must have begun."""
    prompt: Prompt | None = None
    """Once it was asked for."""
    timed: Timed | None = None
    """Who wants to know how long this attempt takes."""
    alone: str | None = None
    """Why a decoder alone answers; None where a pair does."""
    tried: set[Backend] = field(default_factory=set)
    dispatches: int = 0
    failure: Failure | None = None
    fallback: str | None = None


class Handoff:
    """Sends a job to a pair as its protocol wants it, or to a decoder alone."""

    def __init__(self, context: Context, timeouts: Timeouts, orphans: Orphans) -> None:
        self._context = context
        self._orphans = orphans
        self._timeouts = timeouts

    async def reach(self, backend: Backend) -> Upstream | None:
        """A connection; None where there is none, which the backend is blamed for."""
        upstream = backend.pool.take()
        if upstream is not None:
            return upstream
        try:
            return await backend.pool.connect(self._timeouts.connect)
        except (OSError, TimeoutError):
            backend.failed(self._context.now())
            return None

    async def run(
        self,
        job: Job,
        prefiller: Backend | None,
        decoder: Backend,
        legs: tuple[Upstream, Upstream | None],
    ) -> str | Failure:
        """The outcome of an answer that went to the client, or why there is none."""
        attempt = Attempt(self._context, job.measure, decoder, prefiller)
        attempt.timed = job.timed
        decode, prefill = legs
        protocol, body = attempt.protocol, job.completion
        if body is not None and body.stream:
            # One in one piece begins at its end: there it cannot be told what is waited for.
            attempt.kv_wait = self._timeouts.kv_wait
        bodies = None
        try:
            if prefiller is None or prefill is None or protocol is None or body is None:
                job.measure.enter(names.TIER_DECODE)
                self._send_decode(job, attempt, decode, job.body)
                return await attempt.done
            bodies = protocol.bodies(body, prefiller)
            if bodies.decode is None:
                # Only whether it can be reached was asked: until it is needed it would be stale.
                decoder.pool.give_back(decode)
                return await self._in_turn(job, body, attempt, prefill, bodies)
            self._send_prefill(job, attempt, prefiller, prefill, bodies)
            if attempt.done.done():  # the connection was lost just now
                decoder.pool.give_back(decode)
            else:
                self._send_decode(job, attempt, decode, bodies.decode, prefiller.proof_line)
            return await attempt.done
        except BaseException:
            attempt.abort()
            raise
        finally:
            if bodies is not None and attempt.orphaned and prefiller is not None:
                self._free(attempt, prefiller, bodies)

    def _free(self, attempt: Attempt, prefiller: Backend, bodies: Bodies) -> None:
        protocol, answer = attempt.protocol, attempt.answer
        params = protocol.held(bodies, answer) if protocol and answer is not None else None
        if params is not None:
            self._orphans.free(prefiller, attempt.decoder, params)

    async def _in_turn(
        self, job: Job, body: Completion, attempt: Attempt, upstream: Upstream, bodies: Bodies
    ) -> str | Failure:
        """The decode waits for the prefiller's answer."""
        prefiller, protocol, done = attempt.prefiller, attempt.protocol, attempt.done
        if prefiller is None or protocol is None:
            raise AssertionError
        attempt.handed = asyncio.get_running_loop().create_future()
        end = self._context.now() + self._timeouts.prefill
        self._send_prefill(job, attempt, prefiller, upstream, bodies)
        answer = await attempt.handed
        if done.done():
            return done.result()
        decode, proof = job.body, b""
        if answer is not None:
            try:
                decode = protocol.decode(body, answer)
            except FlawError as flaw:
                attempt.fail(Failure(str(flaw), alone=True))
                return done.result()
            proof = prefiller.proof_line
            await self._settle(attempt, prefiller, protocol, end)
        to_decoder = None if done.done() else await self.reach(attempt.decoder)
        if done.done():
            if to_decoder is not None:
                attempt.decoder.pool.give_back(to_decoder)
            return done.result()
        if to_decoder is None:
            attempt.fail(Failure(f"{attempt.decoder.pod.tier}_connect", attempt.decoder))
            return done.result()
        job.measure.enter(names.TIER_DECODE)
        self._send_decode(job, attempt, to_decoder, decode, proof)
        outcome = await done
        if answer is None and outcome == OK:
            # The prefiller alone did not take it: had the decoder not either, it were no fallback.
            self._context.metrics.fallbacks.add("prefill_rejected")
        return outcome

    async def _settle(
        self, attempt: Attempt, prefiller: Backend, protocol: KvProtocol, end: float
    ) -> None:
        left = max(0.0, end - self._context.now())
        await protocol.settle(prefiller, attempt.prompt_tokens or 0, left)
        if protocol.recomputes:
            attempt.release_prefiller()  # the KV is elsewhere, or is not needed

    def _send_prefill(
        self, job: Job, attempt: Attempt, prefiller: Backend, upstream: Upstream, bodies: Bodies
    ) -> None:
        now, end = self._context.now(), job.measure.arrived + job.patience
        deadline = min(now + self._timeouts.prefill, end)
        leg = PrefillLeg(self._context, attempt, upstream, deadline)
        attempt.prefill = leg
        job.measure.enter(names.TIER_PREFILL)
        head = _head(job, prefiller, bodies.prefill, bodies.prefill_headers)
        upstream.send(leg, head, bodies.prefill)

    def _send_decode(
        self, job: Job, attempt: Attempt, upstream: Upstream, body: bytes, proof: bytes = b""
    ) -> None:
        decoder = attempt.decoder
        relay = Relay(
            self._context,
            attempt,
            job.call,
            upstream,
            proof=b"%b%bx-request-id: %b\r\n" % (decoder.proof_line, proof, job.request_id),
            tokens=job.completion is not None,
            deadline=self._decode_deadline(job),
            between=self._timeouts.between_tokens,
        )
        attempt.decode = relay
        upstream.send(relay, _head(job, decoder, body), body)

    def _decode_deadline(self, job: Job) -> float:
        """When a decoder must have begun its answer; one in one piece begins at its end."""
        end = job.measure.arrived + job.patience
        completion = job.completion
        if completion is None or completion.stream:
            return end
        fields = completion.fields
        most = fields.get("max_completion_tokens") or fields.get("max_tokens")
        tokens = most if isinstance(most, int) else _TOKENS_ASSUMED
        return end + self._timeouts.between_tokens * (tokens // _TOKENS_PER_GAP)


def _head(job: Job, backend: Backend, body: bytes, headers: bytes = b"") -> bytes:
    """The head of what an engine is sent."""
    request = job.call.request
    request_id = job.request_id
    if job.dispatches > 1:
        request_id = b"%b-%d" % (request_id, job.dispatches)  # an engine may know the first
    return b"%b %b HTTP/1.1\r\n%b%bx-request-id: %b\r\n%bcontent-length: %d\r\n\r\n" % (
        request.method, request.target, backend.pool.host_line, job.headers, request_id,
        headers, len(body),
    )  # fmt: skip
