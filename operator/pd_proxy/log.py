"""Log lines as JSON objects on standard output. Never a prompt, a body or a credential."""

import sys
import time
from typing import Final

import orjson

_PER_SECOND: Final = 20
"""Lines of one event a second; what is beyond is counted in the next line."""


class _Gate:
    """Keeps an event that comes in storms from filling the disk."""

    def __init__(self) -> None:
        self._second = 0
        self._count: dict[str, int] = {}

    def passes(self, event: str, now: float) -> bool:
        if int(now) != self._second:
            self._second = int(now)
            self._count.clear()
        count = self._count[event] = self._count.get(event, 0) + 1
        return count <= _PER_SECOND


_gate: Final = _Gate()


def log(level: str, event: str, **fields: str | float | None) -> None:
    """Write a line: `level` info, warning or error; `event` in a few words."""
    now = time.time()
    if not _gate.passes(event, now):
        return
    line = orjson.dumps({"time": round(now, 3), "level": level, "event": event, **fields})
    sys.stdout.write(line.decode() + "\n")
    sys.stdout.flush()
