"""What the engine's HTTP server says of itself."""

from __future__ import annotations

import asyncio
from enum import Enum

_REQUEST = b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
TIMEOUT_SECONDS = 10.0
"""A busy engine may answer late."""


class Health(Enum):
    """What a look at the engine found."""

    SILENT = "silent"
    """Nothing listens: vLLM opens its port only when the engine is ready."""
    UNHEALTHY = "unhealthy"
    """It listens, and says that it is ill, or nothing in time."""
    HEALTHY = "healthy"


async def ask(port: int, timeout_seconds: float = TIMEOUT_SECONDS) -> Health:
    """GET /health from the engine in this pod."""
    try:
        opened = asyncio.open_connection("127.0.0.1", port, limit=4096)
        reader, writer = await asyncio.wait_for(opened, timeout_seconds)
    except (OSError, asyncio.TimeoutError):
        return Health.SILENT
    try:
        writer.write(_REQUEST)
        line = await asyncio.wait_for(reader.readline(), timeout_seconds)
        return Health.HEALTHY if line.split()[1:2] == [b"200"] else Health.UNHEALTHY
    except (OSError, asyncio.TimeoutError, ValueError):
        return Health.UNHEALTHY
    finally:
        writer.transport.abort()
