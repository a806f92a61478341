"""The last decisions with all that they rested on, as JSON lines that decide the same. Pure."""

import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError

from pd_operator.autoscale.decide import decide
from pd_operator.autoscale.decision import Decision, Observation, Policy, State

KEEP: Final = 100


class JournalError(ValueError):
    """A line is no entry of a journal; `str()` says which."""


@dataclass(frozen=True)
class Entry:
    """One decision's arguments, and the replicas that it gave; `now` is a monotonic clock's."""

    now: float
    observation: Observation
    policy: Policy
    state: State
    prefill: int
    decode: int

    def replayed(self, policy: Policy | None = None) -> Decision:
        """The decision again, or that of another policy."""
        return decide(self.observation, policy or self.policy, self.state, self.now)


@dataclass(frozen=True)
class Journal:
    """The last KEEP entries, the oldest first."""

    entries: tuple[Entry, ...] = field(default_factory=tuple)

    def noted(self, entry: Entry) -> "Journal":
        """With one more, and without what is too old."""
        return Journal((*self.entries, entry)[-KEEP:])

    def lines(self) -> Iterator[str]:
        """Each entry as a line of JSON."""
        for entry in self.entries:
            yield json.dumps(asdict(entry), separators=(",", ":"), allow_nan=False)


_ENTRY: Final = TypeAdapter[Any](Entry)


def read(lines: Iterable[str]) -> Journal:
    """A journal from its lines; JournalError where one is none."""
    entries = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            entries.append(_ENTRY.validate_json(line))
        except ValidationError as error:
            problem = error.errors()[0]
            where = ".".join(str(part) for part in problem["loc"])
            raise JournalError(f"line {number}: {where}: {problem['msg']}") from error
    return Journal(tuple(entries))
