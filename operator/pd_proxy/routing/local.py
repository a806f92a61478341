"""Whether a decoder had better compute a prompt itself: a pure function of what was measured."""

from dataclasses import dataclass
from typing import Final

_NEW: Final = 0.1
"""How much of an average one more observation is."""
_FRESH_SECONDS: Final = 60.0
"""What was observed longer ago says nothing of now: it is found out anew."""
_FIRST_BYTES_PER_TOKEN: Final = 4.0


class Average:
    """A moving average; None once the last observation is old. Times in seconds."""

    __slots__ = ("_at", "_value")

    def __init__(self) -> None:
        self._value = 0.0
        self._at = float("-inf")

    def add(self, value: float, now: float) -> None:
        """One more observation."""
        old = now - self._at > _FRESH_SECONDS
        self._value = value if old else self._value + _NEW * (value - self._value)
        self._at = now

    def get(self, now: float) -> float | None:
        """The average."""
        return None if now - self._at > _FRESH_SECONDS else self._value


@dataclass(frozen=True, slots=True)
class Speeds:
    """What is measured lately; None where nothing was. Work is in bytes of prompts."""

    prefiller: float | None = None
    """Bytes that a prefiller computes in a second."""
    decoder: float | None = None
    """Bytes that a decoder computes in a second, beside its own work."""
    transfer: float | None = None
    """Seconds from the prefiller's answer to the decoder's first token."""
    bytes_per_token: float = _FIRST_BYTES_PER_TOKEN


class Observed:
    """Where observations become `Speeds`, over all pods of this proxy."""

    def __init__(self) -> None:
        self._prefiller = Average()
        self._decoder = Average()
        self._transfer = Average()
        self._bytes_per_token = Average()

    def prompt(self, size: int, tokens: int, now: float) -> None:
        """An engine told how many tokens a prompt of so many bytes has."""
        if tokens > 0:
            self._bytes_per_token.add(size / tokens, now)

    def prefilled(self, work: int, seconds: float, now: float) -> None:
        """A prefiller has done so much work, its queue and the prompt, in so many seconds."""
        if seconds > 0:
            self._prefiller.add(work / seconds, now)

    def computed(self, work: int, seconds: float, now: float) -> None:
        """A decoder had its first token after so many seconds, with so much to compute itself."""
        if seconds > 0:
            self._decoder.add(work / seconds, now)

    def moved(self, seconds: float, now: float) -> None:
        """A decoder had its first token so many seconds after the prefiller had answered."""
        self._transfer.add(max(0.0, seconds), now)

    def speeds(self, now: float) -> Speeds:
        """What is known now."""
        return Speeds(
            self._prefiller.get(now),
            self._decoder.get(now),
            self._transfer.get(now),
            self._bytes_per_token.get(now) or _FIRST_BYTES_PER_TOKEN,
        )


def local(own: int, remote: int, most_tokens: int, speeds: Speeds) -> bool:
    """Whether the decoder computes the prompt itself.

    `own` bytes of it are not cached at the decoder; until the prefiller would have answered it has
    `remote` bytes to compute, its queue and what of the prompt is not cached there. Beyond
    `most_tokens` never: other requests' tokens wait for it.
    """
    if own > most_tokens * speeds.bytes_per_token:
        return False
    if speeds.prefiller is None:
        return True  # a short prompt; what it costs there is found out by the longer ones
    there = remote / speeds.prefiller + (speeds.transfer or 0.0)
    return own / (speeds.decoder or speeds.prefiller) <= there


class Timed:
    """What one attempt tells of the speeds; `work` as in `Observed`, `size` the prompt's bytes."""

    __slots__ = ("_answered", "_began", "_observed", "_pair", "_size", "_stream", "_work")

    def __init__(
        self, observed: Observed, *, pair: bool, stream: bool, size: int, work: int, now: float
    ) -> None:
        self._observed = observed
        self._pair = pair
        self._stream = stream
        self._size = size
        self._work = work
        self._began = now
        self._answered: float | None = None

    def prefilled(self, tokens: int, now: float) -> None:
        """The prefiller has answered."""
        self._answered = now
        self._observed.prompt(self._size, tokens, now)
        self._observed.prefilled(self._work, now - self._began, now)

    def begun(self, now: float) -> None:
        """The decoder has begun its answer: of a stream with its first token."""
        if not self._stream:
            return
        if not self._pair:
            self._observed.computed(self._work, now - self._began, now)
        elif self._answered is not None:
            self._observed.moved(now - self._answered, now)


def only_text(messages: object) -> bool:
    """Whether the messages' bytes tell their tokens: those of a picture's URL do not."""
    return isinstance(messages, list) and all(
        isinstance(message, dict) and isinstance(message.get("content"), str | None)
        for message in messages
    )
