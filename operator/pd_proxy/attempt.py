"""One dispatch of one request: a decoder's answer on its way to the client, and the prefill."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from pd_proxy.backends import Backend
from pd_proxy.deadlines import Deadlines
from pd_proxy.http.headers import Headers
from pd_proxy.kv.protocol import KvProtocol
from pd_proxy.measure import Measure
from pd_proxy.metrics import Metrics

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


@dataclass(frozen=True, slots=True)
class Context:
    """What all attempts share."""

    metrics: Metrics
    deadlines: Deadlines
    kv: KvProtocol
    now: Callable[[], float]
    """The loop's clock, to the microsecond: uvloop's own time() has whole milliseconds."""


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
        "_prompt_tokens",
        "_settled",
        "committed",
        "decode",
        "decoder",
        "done",
        "measure",
        "prefill",
        "prefill_rejected",
        "prefiller",
    )

    def __init__(
        self, context: Context, measure: Measure, decoder: Backend, prefiller: Backend | None
    ) -> None:
        self._context = context
        self.measure = measure
        self.decoder = decoder
        self.prefiller = prefiller
        self.decode: Leg | None = None
        self.prefill: Leg | None = None
        self.done: asyncio.Future[str | Failure] = asyncio.get_running_loop().create_future()
        self.committed = False
        self.prefill_rejected = False
        self._settled = False
        self._prompt_tokens: int | None = None
        decoder.in_flight += 1
        decoder.holders.add(self)
        if prefiller is not None:
            prefiller.in_flight += 1
            prefiller.holders.add(self)

    def fail(self, failure: Failure) -> None:
        """Give up, before anything was passed on."""
        if not self.committed and not self.done.done():
            self.done.set_result(failure)
            self.abort()

    def commit(self) -> None:
        """The answer's first byte goes to the client: the KV cache has come over, if any."""
        self.committed = True
        self._release_prefiller()
        self._settle()

    def finish(self, outcome: str) -> None:
        """The answer went to the client, whole or broken."""
        self.decoder.holders.discard(self)
        self.decoder.in_flight -= 1
        self._release_prefiller()
        if not self.done.done():
            self.done.set_result(outcome)

    def abort(self) -> None:
        """End both legs."""
        for leg in (self.decode, self.prefill):
            if leg is not None:
                leg.abort()
        if self in self.decoder.holders:
            self.finish(UPSTREAM_ERROR)

    def prefilled(self, tokens: int) -> None:
        """The prefiller holds the KV of so many tokens for the decoder."""
        self._prompt_tokens = tokens
        self.measure.prompt(tokens)
        self._settle()

    def rejected(self) -> None:
        """The prefiller does not take the request: the decoder should say why, and soon."""
        self.prefill_rejected = True
        if self.decode is not None and not self.committed:
            soon = self._context.now() + REJECTED_SECONDS
            self.decode.deadline = min(self.decode.deadline, soon)

    def backend_gone(self, backend: Backend) -> None:
        """See Holder."""
        tier = backend.pod.tier
        if not self.committed:
            self.fail(Failure(f"{tier}_gone", backend))
        elif backend is self.decoder and self.decode is not None:
            self.decode.abort()
            self.decode.on_lost(f"{tier}_gone")

    def _settle(self) -> None:
        """Once both are known, the decoder must have received these tokens."""
        if self.committed and self._prompt_tokens is not None and not self._settled:
            self._settled = True
            self._context.metrics.kv_expected.add(self.decoder.pod.name, self._prompt_tokens)

    def _release_prefiller(self) -> None:
        prefiller = self.prefiller
        if prefiller is not None and self in prefiller.holders:
            prefiller.holders.discard(self)
            prefiller.in_flight -= 1
