"""What is measured of one request."""

from typing import Final

from pd_proxy.admission import Ticket
from pd_proxy.metrics import Metrics
from pd_shared import metrics as names

_BYTES_PER_TOKEN: Final = 4


class Measure:
    """From a request's arrival to its end; all times in the loop's time."""

    __slots__ = (
        "_first",
        "_last",
        "_metrics",
        "_prefilled",
        "_prompt_counted",
        "_tier",
        "arrived",
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
        self._prompt_counted = self._prefilled = False
        self._first = self._last = 0.0
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
        self._metrics.queue.observe(now - self.arrived)

    def prompt(self, tokens: int) -> None:
        """The engine told how many tokens the prompt has."""
        if not self._prompt_counted:
            self._prompt_counted = True
            self._metrics.prompt_tokens += tokens

    def prefilled(self, now: float) -> None:
        """The prefiller has answered."""
        if not self._prefilled:
            self._prefilled = True
            self._metrics.prefill.observe(now - self.arrived)

    def token(self, now: float) -> None:
        """An event with a token has come."""
        if not self._first:
            self._first = now
            self._metrics.ttft.observe(now - self.arrived)
        self._last = now

    def generated(self, tokens: int) -> None:
        """So many tokens were generated in all."""
        self._metrics.completion_tokens += tokens
        if tokens > 1 and self._first:
            self._metrics.tpot.observe((self._last - self._first) / (tokens - 1))

    def end(self, outcome: str, now: float) -> None:
        """The request is over."""
        self.enter(None)
        if not self._prompt_counted:
            self.prompt(self.size // _BYTES_PER_TOKEN)
        self._metrics.requests.add(outcome)
        if outcome == names.OUTCOMES[0]:
            self._metrics.e2e.observe(now - self.arrived)
