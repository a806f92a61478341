"""One line per event on the standard error, beside the engine's own."""

from __future__ import annotations

import sys


def say(message: str) -> None:
    """Write one line; a closed standard error is no reason to end."""
    try:
        sys.stderr.write(f"pd-launch: {message}\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        pass
