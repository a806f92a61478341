"""The prefiller's leg of an attempt."""

from typing import Final

from pd_proxy.attempt import TIMEOUT, UPSTREAM_ERROR, Answer, Attempt, Context, Failure
from pd_proxy.http.headers import Headers
from pd_proxy.http.upstream import Parts, Upstream
from pd_proxy.sse import usage_of
from pd_shared import metrics as names

_MOST_BYTES: Final = 16 * 1024 * 1024
"""An answer of one token is never longer."""


class PrefillLeg:
    """Waits for the prefiller's answer, which only says that the KV is there."""

    __slots__ = (
        "_attempt",
        "_context",
        "_headers",
        "_parts",
        "_size",
        "_status",
        "_upstream",
        "deadline",
    )

    def __init__(
        self, context: Context, attempt: Attempt, upstream: Upstream, deadline: float
    ) -> None:
        self._context = context
        self._attempt = attempt
        self._upstream: Upstream | None = upstream
        self._status = 0
        self._headers: Headers = []
        self._parts: list[bytes] = []
        self._size = 0
        self.deadline = deadline
        context.deadlines.add(self)

    def on_head(self, status: int, headers: Headers) -> None:
        """See Listener."""
        self._status = status
        self._headers = headers

    def on_body(self, data: bytes) -> None:
        """See Listener."""
        self._parts.append(data)
        self._size += len(data)
        if self._size > _MOST_BYTES:
            self.abort()
            self._fail("prefill_invalid")

    def on_chunks(self, chunks: bytes, parts: Parts) -> None:
        """See Listener."""
        self._parts.extend(chunks[start:end] for start, end in parts)

    def on_end(self) -> None:
        """See Listener."""
        self._end()
        attempt = self._attempt
        body = b"".join(self._parts)
        if self._status == 200:
            self._judge(body)
        elif self._status < 500:
            attempt.rejected()
        else:
            answer = Answer(self._status, self._headers, body)
            self._fail(f"prefill_status_{self._status}", answer=answer, grave=False)

    def on_lost(self, reason: str) -> None:
        """See Listener."""
        self._end()
        self._fail(f"prefill_{reason}")

    def expired(self) -> None:
        """See Watched."""
        self.abort()
        self._fail("prefill_timeout", outcome=TIMEOUT)

    def abort(self) -> None:
        """See Leg."""
        upstream = self._upstream
        self._end()
        if upstream is not None:
            upstream.abort()

    def _judge(self, body: bytes) -> None:
        attempt, now = self._attempt, self._context.now()
        tokens, _ = usage_of(body)
        if tokens is None:
            self._fail("prefill_invalid", grave=False)
        elif flaw := attempt.protocol.flaw(body) if attempt.protocol else None:
            attempt.fail(Failure(flaw, alone=True))
        else:
            if attempt.prefiller is not None:
                attempt.prefiller.succeeded()
            attempt.measure.prefilled(now)
            if not attempt.done.done():
                attempt.measure.enter(names.TIER_DECODE)
            attempt.prefilled(tokens, body)

    def _fail(
        self,
        reason: str,
        answer: Answer | None = None,
        outcome: str = UPSTREAM_ERROR,
        *,
        grave: bool = True,
    ) -> None:
        prefiller = self._attempt.prefiller
        if prefiller is not None:
            prefiller.failed(self._context.now(), grave=grave)
        self._attempt.fail(Failure(reason, prefiller, answer, outcome=outcome))

    def _end(self) -> None:
        self._upstream = None
        self._context.deadlines.discard(self)
