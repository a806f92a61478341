"""One connection between two members: short lines of JSON, and beats that show who still lives."""

from __future__ import annotations

import asyncio
import contextlib
import json
from typing import Any, Callable

Message = dict[str, Any]

MAX_BYTES = 1024
"""Of one message. A longer one ends the connection."""

BEATS_PER_KEEPALIVE = 5


class LinkLostError(Exception):
    """The connection is of no use any more; the text says why."""


class Link:
    """Sends and takes messages; the other side may be silent for `keepalive` seconds."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, keepalive: float
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._keepalive = keepalive

    def send(self, message: Message) -> None:
        """Send at once. Whether it arrived shows in the answers alone."""
        if not self._writer.is_closing():
            self._writer.write(json.dumps(message, separators=(",", ":")).encode() + b"\n")

    async def receive(self) -> Message:
        """The next message."""
        try:
            line = await asyncio.wait_for(self._reader.readline(), self._keepalive)
        except asyncio.TimeoutError:
            raise LinkLostError(f"silent for {self._keepalive:g} s") from None
        except ValueError:
            raise LinkLostError(f"sent a message of more than {MAX_BYTES} bytes") from None
        except OSError as error:
            raise LinkLostError(f"connection lost: {error.strerror}") from None
        if not line.endswith(b"\n"):
            raise LinkLostError("closed the connection")
        try:
            message = json.loads(line)
        except (ValueError, RecursionError):
            message = None
        if not isinstance(message, dict):
            raise LinkLostError("sent what is not a message")
        return message

    async def keep(self, state: Callable[[], Message], take: Callable[[Message], None]) -> None:
        """Beat with `state` and give what comes to `take`, until LinkLostError."""
        beats = asyncio.ensure_future(self._beat(state))
        try:
            while True:
                take(await self.receive())
        finally:
            beats.cancel()

    def close(self) -> None:
        """Close it; what was sent still goes out."""
        with contextlib.suppress(OSError, RuntimeError):
            self._writer.close()

    async def _beat(self, state: Callable[[], Message]) -> None:
        while True:
            self.send(state())
            await asyncio.sleep(self._keepalive / BEATS_PER_KEEPALIVE)


def text(message: Message, key: str) -> str:
    """A text of a message, short enough for a log; "" when it is none."""
    value = message.get(key)
    return value[:200] if isinstance(value, str) else ""
