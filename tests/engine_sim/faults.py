"""What a simulated engine does wrong, by command."""

from dataclasses import dataclass


@dataclass
class Faults:
    """All off by default. Numbers with `_times` count down to off; -1 never does."""

    hang: bool = False
    """Requests are taken and never answered."""
    held: bool = False
    """Requests are taken and answered once this is off."""
    status: int = 500
    status_times: int = 0
    """Requests answered with `status` and an error."""
    reset_times: int = 0
    """Requests answered by a reset of the connection, before a byte."""
    die_after_tokens: int | None = None
    """A stream is cut by a reset after so many tokens."""
    cut_event: bool = False
    """The cut comes in the middle of an event."""
    end_without_done_after: int | None = None
    """A stream ends well-formed after so many tokens, without [DONE]."""
    stall_after_tokens: int | None = None
    """A stream stops after so many tokens and stays open."""
    lost_after_done: bool = False
    """The connection is reset once [DONE] was sent, before the body's own end."""
    stall_after_done: bool = False
    """The connection stays open once [DONE] was sent, without the body's own end."""
    slow_kv: float = 0.0
    """Seconds that a transfer takes."""
    params_missing: bool = False
    """Nixl: the prefiller answers without saying where the blocks are."""
    lost_saves: bool = False
    """With a store between the tiers: what was prefilled never comes there."""
    bootstrap_down: bool = False
    """The bootstrap server answers 503."""
    garbage_times: int = 0
    """Requests answered 200 with something that is not an engine's answer."""
    error_event_times: int = 0
    """Streams whose first event is an error."""

    def take(self, name: str) -> bool:
        """Whether a counted fault strikes now."""
        left = int(getattr(self, name))
        if left > 0:
            setattr(self, name, left - 1)
        return left != 0
