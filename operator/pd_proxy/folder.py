"""Files of a mounted Secret, read again when they change."""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from pd_proxy.log import log
from pd_proxy.values import ConfigError

POLL_SECONDS: Final = 2.0
_MOST_BYTES: Final = 1024 * 1024
"""A Secret is never larger."""

Files = Mapping[str, bytes]


def read(folder: Path) -> Files:
    """Contents by file name; ConfigError where it cannot be read."""
    try:
        files = [f for f in folder.iterdir() if not f.name.startswith(".") and f.is_file()]
        if sum(f.stat().st_size for f in files) > _MOST_BYTES:
            raise ConfigError(f"{folder} has more than {_MOST_BYTES} bytes")
        return {f.name: f.read_bytes() for f in files}
    except OSError as error:
        raise ConfigError(f"{folder} cannot be read: {error.strerror}") from error


async def follow(
    folder: Path, known: Files, take: Callable[[Files], None], seconds: float = POLL_SECONDS
) -> None:
    """Call `take` with each new content, until cancelled.

    What cannot be read, or is refused with ConfigError, leaves all as it was.
    """
    refused = None
    while True:
        await asyncio.sleep(seconds)
        try:
            found = read(folder)
            if found in (known, refused):
                continue
            refused = found
            take(found)
        except ConfigError as error:
            log("error", "a mounted Secret is not usable", error=str(error))
            continue
        known, refused = found, None
        log("info", "a mounted Secret has changed", folder=folder.name)
