"""The decoder's leg of an attempt: its answer goes to the client as it came."""

from typing import Final

from pd_proxy.attempt import (
    CLIENT_ERROR,
    OK,
    TIMEOUT,
    UPSTREAM_ERROR,
    Answer,
    Attempt,
    Context,
    Failure,
)
from pd_proxy.deadlines import NEVER
from pd_proxy.errors import ProxyError
from pd_proxy.http.call import Call
from pd_proxy.http.headers import Headers, find, to_client
from pd_proxy.http.upstream import Parts, Upstream
from pd_proxy.sse import EventStream, usage_of
from pd_proxy.surface import error_events
from pd_shared import metrics as names

_DONE: Final = b"data: [DONE]\n\n"
_HELD_BYTES: Final = 8 * 1024 * 1024
"""A longer answer in one piece goes out in parts, and can be retried no more."""
_ALL_HELD_BYTES: Final = 64 * 1024 * 1024
"""The same where all answers together are longer."""


class Relay:
    """Holds an answer in one piece until it is whole; passes on a stream event by event.

    With `tokens` the answer is a completion, whose tokens are counted.
    """

    __slots__ = (
        "_attempt",
        "_between",
        "_call",
        "_context",
        "_events",
        "_headers",
        "_held",
        "_held_size",
        "_proof",
        "_status",
        "_tokens",
        "_upstream",
        "deadline",
    )

    def __init__(
        self,
        context: Context,
        attempt: Attempt,
        call: Call,
        upstream: Upstream,
        *,
        proof: bytes,
        tokens: bool,
        deadline: float,
        between: float,
    ) -> None:
        self._context = context
        self._attempt = attempt
        self._call = call
        self._upstream: Upstream | None = upstream
        self._proof = proof
        self._tokens = tokens
        self._between = between
        self._status = 0
        self._headers: Headers = []
        self._held: list[bytes] | None = []
        self._held_size = 0
        self._events: EventStream | None = None
        self.deadline = min(deadline, attempt.kv_deadline)
        context.deadlines.add(self)

    # The decoder's side.

    def on_head(self, status: int, headers: Headers) -> None:
        """See Listener."""
        self._status = status
        self._headers = headers
        kind = find(headers, b"content-type") or b""
        if status == 200 and kind.startswith(b"text/event-stream"):
            self._events = EventStream(self._tokens)
            self._held = None

    def on_body(self, data: bytes) -> None:
        """See Listener."""
        if self._held is not None:
            self._hold(data)
            return
        events = self._events
        if events is not None:
            before = events.tokens
            data = events.feed(data)
            now = self._context.now()
            if events.tokens > before:
                self._attempt.measure.token(now)
            self.deadline = now + self._between
            if not data:
                return
        else:
            self.deadline = self._context.now() + self._between
        if self._attempt.committed:
            self._call.write(data)
        elif events is not None and events.error_first:
            # Nothing was generated: another pair may do better.
            self._held = [data]
        else:
            self._commit(data)

    def on_chunks(self, chunks: bytes, parts: Parts) -> None:
        """See Listener: events with one token each go on as they came, framing and all."""
        events, call, attempt = self._events, self._call, self._attempt
        count = 0
        if events is not None and attempt.committed and call.chunked:
            while count < len(parts) and events.one(chunks, *parts[count]):
                count += 1
        if count:
            now = self._context.now()
            attempt.measure.token(now)
            self.deadline = now + self._between
            if count == len(parts):
                call.write_chunks(chunks)
                return
            call.write_chunks(chunks[: parts[count - 1][1] + 2])
        for start, end in parts[count:]:
            if self._upstream is None:
                return  # ended meanwhile
            self.on_body(chunks[start:end])

    def on_end(self) -> None:
        """See Listener."""
        self._end()
        if self._held is not None:
            self._whole(b"".join(self._held))
            return
        events = self._events
        if events is not None:
            rest = events.rest()
            if self._tokens and not events.done:
                self._break(UPSTREAM_ERROR, "the engine ended the stream before its end")
                return
            self._count(events)
            if rest:
                self._call.write(rest) if self._attempt.committed else self._commit(rest)
        if not self._attempt.committed:
            self._attempt.commit()
            self._call.respond(self._status, self._head(), b"")
        else:
            self._call.finish()
        self._attempt.finish(OK)

    def on_lost(self, reason: str) -> None:
        """See Listener."""
        if self._told_all():
            self.on_end()
            return
        self._end()
        self._attempt.decoder_lost = True
        self._attempt.decoder.failed(self._context.now())
        if self._attempt.committed:
            self._break(UPSTREAM_ERROR, "the engine was lost while it answered")
        else:
            self._attempt.fail(Failure(_named("decode", reason), self._attempt.decoder))

    def expired(self) -> None:
        """See Watched."""
        attempt = self._attempt
        self.abort()
        if self._told_all():
            self.on_end()
            return
        if attempt.committed:
            self._break(TIMEOUT, "the engine did not go on in time")
            return
        if attempt.prefill_rejected:
            attempt.fail(Failure("prefill_rejected", alone=True))
            return
        now = self._context.now()
        if attempt.kv_deadline <= now:
            # Nobody is known to be at fault: the KV is lost, the way blocked, or the decoder busy.
            attempt.fail(Failure("kv_timeout", attempt.prefiller, outcome=TIMEOUT))
            return
        attempt.decoder.failed(now)
        attempt.fail(Failure("decode_timeout", attempt.decoder, outcome=TIMEOUT))

    def _told_all(self) -> bool:
        """Whether the stream's own end went out: nothing, an error least, may come after it."""
        return self._attempt.committed and self._events is not None and self._events.done

    # The client's side.

    def pause(self) -> None:
        """See Flow."""
        if self._upstream is not None:
            self._upstream.pause()
            self.deadline = NEVER  # the connection watches a client that does not read

    def resume(self) -> None:
        """See Flow."""
        if self._upstream is not None:
            self.deadline = self._context.now() + self._between
            self._upstream.resume()

    def abort(self) -> None:
        """See Leg."""
        upstream = self._upstream
        self._end()
        if upstream is not None:
            upstream.abort()

    def _hold(self, data: bytes) -> None:
        held = self._held
        if held is None:
            return
        held.append(data)
        self._held_size += len(data)
        together = self._context.held
        together.size += len(data)
        if self._status < 500 and (
            self._held_size > _HELD_BYTES or together.size > _ALL_HELD_BYTES
        ):
            self._held = None
            self._release()
            self._commit(b"".join(held))

    def _whole(self, body: bytes) -> None:
        attempt = self._attempt
        status = self._status
        if status >= 500 or self._events is not None:
            attempt.decoder.failed(self._context.now(), grave=False)
            if self._events is not None and not body.endswith(_DONE):
                body += (b"" if body.endswith(b"\n\n") else b"\n\n") + _DONE
            answer = Answer(status, self._headers, body)
            reason = f"decode_status_{status}" if status >= 500 else "decode_error"
            attempt.fail(Failure(reason, attempt.decoder, answer))
            return
        if status >= 400:
            if attempt.prefill is not None:
                attempt.prefill.abort()
            attempt.committed = True
            self._call.respond(status, self._head(), body)
            attempt.finish(CLIENT_ERROR)
            return
        if self._tokens and not (body.startswith(b"{") and body.rstrip().endswith(b"}")):
            attempt.decoder.failed(self._context.now(), grave=False)
            attempt.fail(Failure("decode_invalid", attempt.decoder))
            return
        attempt.commit()
        if self._tokens:
            prompt, completion = usage_of(body)
            if prompt is not None:
                attempt.measure.prompt(prompt)
            attempt.measure.generated(completion or 0)
        self._call.respond(status, self._head(), body)
        attempt.finish(OK)

    def _commit(self, data: bytes) -> None:
        attempt = self._attempt
        attempt.commit()
        attempt.measure.enter(names.TIER_DECODE)
        self._call.flow = self
        self._call.start(self._status, self._head(), data)

    def _head(self) -> bytes:
        return to_client(self._headers) + self._proof

    def _count(self, events: EventStream) -> None:
        if self._tokens:
            if events.prompt_tokens is not None:
                self._attempt.measure.prompt(events.prompt_tokens)
            told = events.completion_tokens
            self._attempt.measure.generated(events.tokens if told is None else told)

    def _break(self, outcome: str, message: str) -> None:
        """The answer cannot be ended as it should: tell the client so."""
        attempt = self._attempt
        if not attempt.committed:
            attempt.fail(Failure("decode_truncated", attempt.decoder))
            return
        if self._events is not None:
            self._count(self._events)
            error = ProxyError(504 if outcome == TIMEOUT else 502, message)
            self._call.write(error_events(self._call.request.path, error))
            self._call.finish()
        else:
            self._call.abort()
        attempt.finish(outcome)

    def _release(self) -> None:
        self._context.held.size -= self._held_size
        self._held_size = 0

    def _end(self) -> None:
        self._upstream = None
        self._release()
        self._context.deadlines.discard(self)


def _named(leg: str, reason: str) -> str:
    return reason if reason.startswith("decode") else f"{leg}_{reason}"
