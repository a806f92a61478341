"""Signals that come before the event loop can take them."""

from __future__ import annotations

import os
import signal

PASSED_ON = (signal.SIGTERM, signal.SIGINT, signal.SIGQUIT, signal.SIGHUP)
"""What stops the launcher: the kubelet sends the image's STOPSIGNAL, which need not be SIGTERM."""

early: list[int] = []
"""Those that came before the loop."""


def catch() -> None:
    """Keep every signal of `PASSED_ON` in `early`."""
    for number in PASSED_ON:
        signal.signal(number, lambda number, _: early.append(number))


def end_at_once() -> None:
    """End the process with every signal of `PASSED_ON`, also one that came before."""
    for number in PASSED_ON:
        signal.signal(number, lambda number, _: os._exit(128 + number))
    if early:
        os._exit(128 + early[0])


def name(number: int) -> str:
    """SIGTERM for 15; the number for one without a name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
