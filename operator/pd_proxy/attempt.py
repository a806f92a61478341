"""One dispatch of one request: a decoder's answer on its way to the client, and the prefill."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol

from pd_proxy.backends import Backend
from pd_proxy.deadlines import NEVER, Deadlines
from pd_proxy.http.headers import Headers
from pd_proxy.measure import Measure
from pd_proxy.metrics import Metrics
from pd_proxy.protocols.base import KvProtocol
from pd_proxy.routing.local import Timed

OK: Final = "ok"
CLIENT_ERROR: Final = "client_error"
UPSTREAM_ERROR: Final = "upstream_error"
TIMEOUT: Final = "timeout"

REJECTED_SECONDS: Final = 0.5
"""How long a decoder may take to reject what its prefiller has rejected."""


@dataclass(frozen=True, slots=True)
class Answer:
    """An engine's answer that is not passed on yet."""

    status: int
    headers: Headers
    body: bytes


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an attempt came to nothing; the client has not seen a byte of it."""

    reason: str
    backend: Backend | None = None
    answer: Answer | None = None
    alone: bool = False
    """Whether a pair cannot answer this request: a decoder alone has to."""
    outcome: str = UPSTREAM_ERROR


@dataclass(slots=True)
class Held:
    """Answers that are kept until they are whole, all together."""

    size: int = 0
    """In bytes."""


@dataclass(frozen=True, slots=True)
class Context:
    """What all attempts share."""

    metrics: Metrics
    deadlines: Deadlines
    now: Callable[[], float]
    """The loop's clock, to the microsecond: uvloop's own time() has whole milliseconds."""
    held: Held = field(default_factory=Held)


class Leg(Protocol):
    """One engine's part in an attempt."""

    deadline: float

    def abort(self) -> None:
        """End it; the engine stops its work."""

    def on_lost(self, reason: str) -> None:
        """The engine is gone."""


class Attempt:
    """Joins the legs: the failure of one ends the other, as long as nothing was passed on.

    `done` is the outcome of an answer that went to the client, or the Failure.
    """

    __slots__ = (
        "_context",
        "_queued",
        "_settled",
        "_told",
        "answer",
        "committed",
        "decode",
        "decoder",
        "decoder_lost",
        "done",
        "handed",
        "kv_deadline",
        "kv_wait",
        "measure",
        "prefill",
        "prefill_rejected",
        "prefiller",
        "prompt_tokens",
        "protocol",
        "timed",
    )

    def __init__(
        self, context: Context, measure: Measure, decoder: Backend, prefiller: Backend | None
    ) -> None:
        self._context = context
        self.measure = measure
        self.decoder = decoder
        self.prefiller = prefiller
        self.protocol: KvProtocol | None = prefiller.protocol if prefiller else None
        self.decode: Leg | None = None
        self.prefill: Leg | None = None
        self.done: asyncio.Future[str | Failure] = asyncio.get_running_loop().create_future()
        self.handed: asyncio.Future[bytes | None] | None = None
        """Where the decoder waits for it: the prefiller's answer, None where it gave none."""
        self.committed = False
        self.kv_wait = NEVER
        """How long after the prefiller's answer the decoder may take to begin, in seconds."""
        self.kv_deadline = NEVER
        self.prefill_rejected = False
        self._settled = False
        self._told = False
        self._queued = prefiller is not None
        self.timed: Timed | None = None
        """Who wants to know how long it takes."""
        self.answer: bytes | None = None
        """The prefiller's, once it holds KV for the decoder."""
        self.decoder_lost = False
        self.prompt_tokens: int | None = None
        """Set once the prefiller has told."""
        measure.decoder = decoder.pod.name
        measure.prefiller = prefiller.pod.name if prefiller is not None else None
        decoder.in_flight += 1
        decoder.holders.add(self)
        if prefiller is not None:
            prefiller.in_flight += 1
            prefiller.queued += measure.size
            prefiller.holders.add(self)

    def fail(self, failure: Failure) -> None:
        """Give up, before anything was passed on."""
        if not self.committed and not self.done.done():
            self.done.set_result(failure)
            self.hand(None)
            self.abort()

    def commit(self) -> None:
        """The answer's first byte goes to the client: the KV cache has come over, if any."""
        self.committed = True
        self.decoder.succeeded()
        if self.timed is not None:
            self.timed.begun(self._context.now())
        self.release_prefiller()
        self._settle()

    def finish(self, outcome: str) -> None:
        """The answer went to the client, whole or broken."""
        self.decoder.holders.discard(self)
        self.decoder.in_flight -= 1
        self.release_prefiller()
        if not self.done.done():
            self.done.set_result(outcome)
        self._told |= self.decode is not None
        # They hold this attempt: what is in a cycle stays until it is collected.
        self.decode = self.prefill = None

    def abort(self) -> None:
        """End both legs."""
        for leg in (self.decode, self.prefill):
            if leg is not None:
                leg.abort()
        if self in self.decoder.holders:
            self.finish(UPSTREAM_ERROR)

    def prefilled(self, tokens: int, answer: bytes) -> None:
        """The prefiller holds the KV of so many tokens for the decoder."""
        self.prompt_tokens = tokens
        self._dequeue()
        if self.timed is not None:
            self.timed.prefilled(tokens, self._context.now())
        self.answer = answer
        self.measure.prompt(tokens)
        self._settle()
        self.kv_deadline = self._context.now() + self.kv_wait
        if self.decode is not None and not self.committed:
            self.decode.deadline = min(self.decode.deadline, self.kv_deadline)
        self.hand(answer)

    def hand(self, answer: bytes | None) -> None:
        """Let a decode go on that waits for the prefiller."""
        if self.handed is not None and not self.handed.done():
            self.handed.set_result(answer)

    def rejected(self) -> None:
        """The prefiller does not take the request: the decoder should say why, and soon."""
        self.prefill_rejected = True
        self.hand(None)
        if self.decode is not None and not self.committed:
            soon = self._context.now() + REJECTED_SECONDS
            self.decode.deadline = min(self.decode.deadline, soon)

    @property
    def orphaned(self) -> bool:
        """Whether the prefiller holds KV that the decoder will never fetch.

        A decoder that has the request, and is told of its end, lets the KV go by itself.
        """
        nobody = (self.decode is None and not self._told) or self.decoder_lost
        return self.answer is not None and not self.committed and nobody

    def backend_gone(self, backend: Backend) -> None:
        """See Holder."""
        self.decoder_lost |= backend is self.decoder
        tier = backend.pod.tier
        if not self.committed:
            self.fail(Failure(f"{tier}_gone", backend))
        elif backend is self.decoder and self.decode is not None:
            self.decode.abort()
            self.decode.on_lost(f"{tier}_gone")

    def backend_doubted(self, backend: Backend) -> None:
        """See Holder."""
        self.decoder_lost |= backend is self.decoder
        if not self.committed:
            self.fail(Failure(f"{backend.pod.tier}_unhealthy", backend))

    def _settle(self) -> None:
        """Once both are known, the decoder must have received these tokens."""
        tokens, protocol = self.prompt_tokens, self.protocol
        if self.committed and not self._settled and tokens is not None and protocol is not None:
            self._settled = True
            expected = protocol.expected(tokens)
            metrics, decoder = self._context.metrics, self.decoder.pod.name
            metrics.kv_expected.add(decoder, expected)
            metrics.kv_expected_requests.add(decoder, 1 if expected else 0)

    def release_prefiller(self) -> None:
        """Nothing rests on the prefiller any more."""
        prefiller = self.prefiller
        if prefiller is not None and self in prefiller.holders:
            self._dequeue()
            prefiller.holders.discard(self)
            prefiller.in_flight -= 1

    def _dequeue(self) -> None:
        """The prefiller has computed the prompt, or will not."""
        if self._queued and self.prefiller is not None:
            self._queued = False
            self.prefiller.queued -= self.measure.size
