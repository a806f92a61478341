"""What is measured of one request."""

from typing import Any, Final

from pd_proxy.admission import Ticket
from pd_proxy.metrics import Metrics
from pd_shared import metrics as names

_BYTES_PER_TOKEN: Final = 4


class Measure:
    """From a request's arrival to its end; times are the loop's, 0 for what did not come."""

    __slots__ = (
        "_completion_tokens",
        "_first",
        "_last",
        "_metrics",
        "_prefilled",
        "_prompt_tokens",
        "_tier",
        "_turn",
        "arrived",
        "attempts",
        "decoder",
        "fallback",
        "prefiller",
        "size",
        "ticket",
    )

    def __init__(self, metrics: Metrics, arrived: float, size: int) -> None:
        self._metrics = metrics
        self.arrived = arrived
        self.size = size
        """Bytes of the body: what the prompt's tokens are guessed from."""
        self._tier: str | None = None
        self.ticket: Ticket | None = None
        """Its place among the requests under way."""
        self.attempts = 0
        self.fallback: str | None = None
        """Why a decoder answered alone, where one did."""
        self.prefiller: str | None = None
        self.decoder: str | None = None
        """The pods of the last attempt."""
        self._prompt_tokens: int | None = None
        self._completion_tokens: int | None = None
        self._turn = self._prefilled = self._first = self._last = 0.0
        metrics.offered += 1

    def enter(self, tier: str | None) -> None:
        """The request is now at this tier; each request is at one tier at a time."""
        if tier != self._tier:
            in_flight = self._metrics.in_flight.values
            if self._tier is not None:
                in_flight[self._tier] -= 1
            if tier is not None:
                in_flight[tier] += 1
            self._tier = tier
            if tier == names.TIER_DECODE and self.ticket is not None:
                self.ticket.prefilled()

    def turn(self, ticket: Ticket, now: float) -> None:
        """It has its place among the requests under way."""
        self.ticket = ticket
        self._turn = now
        self._metrics.queue.observe(now - self.arrived)

    def prompt(self, tokens: int) -> None:
        """The engine told how many tokens the prompt has."""
        if self._prompt_tokens is None:
            self._prompt_tokens = tokens
            self._metrics.prompt_tokens += tokens

    def prefilled(self, now: float) -> None:
        """The prefiller has answered."""
        if not self._prefilled:
            self._metrics.prefill.observe(now - self.arrived)
        self._prefilled = now

    def token(self, now: float) -> None:
        """An event with a token has come."""
        metrics = self._metrics
        if self._first:
            metrics.itl.observe(now - self._last)
        else:
            self._first = now
            metrics.ttft.observe(now - self.arrived)
            if self._prefilled and self.prefiller is not None:
                metrics.kv_wait.observe(now - self._prefilled)
        self._last = now

    def generated(self, tokens: int) -> None:
        """So many tokens were generated in all."""
        self._completion_tokens = tokens
        self._metrics.completion_tokens += tokens
        if tokens > 1 and self._first:
            self._metrics.tpot.observe((self._last - self._first) / (tokens - 1))

    def end(self, outcome: str, now: float) -> None:
        """The request is over."""
        self.enter(None)
        if self._prompt_tokens is None:
            self._metrics.prompt_tokens += self.size // _BYTES_PER_TOKEN
        self._metrics.requests.add(outcome)
        if outcome == names.OUTCOMES[0]:
            self._metrics.e2e.observe(now - self.arrived)

    def told(self, now: float) -> dict[str, Any]:
        """All of it, for the access log; in seconds from the arrival, None for what is not."""
        return {
            "seconds": round(now - self.arrived, 6),
            "queue_seconds": self._since(self._turn),
            "prefill_seconds": self._since(self._prefilled),
            "ttft_seconds": self._since(self._first),
            "prompt_tokens": self._prompt_tokens,
            "completion_tokens": self._completion_tokens,
            "prefiller": self.prefiller,
            "decoder": self.decoder,
            "attempts": self.attempts,
            "fallback": self.fallback,
        }

    def _since(self, moment: float) -> float | None:
        return round(moment - self.arrived, 6) if moment else None
