"""One line for each request, as a JSON object on standard output: what became of it, never of what.

No prompt, no answer, no header but the trace's id, no key.
"""

import asyncio
import re
import sys
import time
from collections.abc import Callable
from typing import Any, Final

import orjson

from pd_proxy.http.call import Call
from pd_proxy.http.headers import find
from pd_proxy.measure import Measure

FLUSH_SECONDS: Final = 0.2
_MOST: Final = 10_000
"""Lines between two flushes; what is beyond is counted, not written."""
_TRACE: Final = re.compile(rb"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}(-.*)?")


class AccessLog:
    """Collects lines and writes them now and then: a system call for each would cost too much."""

    def __init__(self, write: Callable[[str], object] | None = None) -> None:
        self._write = write or _to_stdout
        self._lines: list[bytes] = []
        self._dropped = 0
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.TimerHandle | None = None

    def add(
        self, call: Call, request_id: bytes, outcome: str, measure: Measure | None, now: float
    ) -> None:
        """A request has ended; `now` in the loop's time."""
        request = call.request
        record: dict[str, Any] = {
            "time": round(time.time(), 3),
            "event": "request",
            "request": request_id.decode("ascii", "replace"),
            "trace": trace_id(find(request.headers, b"traceparent")),
            "client": call.peer_name,
            "tenant": request.tenant or None,
            "method": request.method.decode("ascii", "replace"),
            "path": request.path.decode("ascii", "replace")[:256],
            "bytes": len(request.body),
            "status": call.status or None,
            "outcome": outcome,
        }
        if measure is not None:
            record |= measure.told(now)
        self._put({key: value for key, value in record.items() if value is not None})

    def refused(self, status: int) -> None:
        """A request was refused before it was read."""
        self._put({"time": round(time.time(), 3), "event": "refused", "status": status})

    def flush(self) -> None:
        """Write what there is."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._dropped:
            self._lines.append(orjson.dumps({"event": "lines dropped", "count": self._dropped}))
            self._dropped = 0
        if self._lines:
            lines, self._lines = self._lines, []
            self._write(b"\n".join(lines).decode() + "\n")

    def _put(self, record: dict[str, Any]) -> None:
        if len(self._lines) >= _MOST:
            self._dropped += 1
            return
        self._lines.append(orjson.dumps(record))
        if self._timer is None:
            self._timer = self._loop.call_later(FLUSH_SECONDS, self.flush)


def trace_id(traceparent: bytes | None) -> str | None:
    """The trace that a request belongs to, by W3C's header; None where it is not valid."""
    match = _TRACE.fullmatch(traceparent) if traceparent is not None else None
    if match is None or not int(match[1], 16):
        return None
    return match[1].decode()


def _to_stdout(text: str) -> None:
    sys.stdout.write(text)
    sys.stdout.flush()
