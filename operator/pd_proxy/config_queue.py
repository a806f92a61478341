"""The section `queue` of the configuration file."""

from dataclasses import dataclass
from typing import Any, Final

from pd_proxy import values

_NO_LIMIT: Final = 1 << 30


@dataclass(frozen=True)
class Queue:
    """How many requests engines get at once, and how long others wait for their turn."""

    size: int = 0
    """Requests that may wait."""
    timeout: float = 30.0
    """Seconds that one may wait."""
    per_decoder: int = _NO_LIMIT
    """Requests under way, for each ready decoder."""
    per_prefiller: int = _NO_LIMIT
    """Of these, requests that have no prefill yet, for each ready prefiller."""


def parse(value: Any) -> Queue:
    """The section; ConfigError names the key that is wrong."""
    keys = ("size", "timeout", "perDecoder", "perPrefiller")
    given = values.section(value, "queue", keys)
    return Queue(
        size=values.count(given["size"], "queue.size", least=0),
        timeout=values.seconds(given["timeout"], "queue.timeout"),
        per_decoder=values.count(given["perDecoder"], "queue.perDecoder"),
        per_prefiller=values.count(given["perPrefiller"], "queue.perPrefiller"),
    )
