"""Stages of a long command: what runs now, and how long each took."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager


class UserError(Exception):
    """Something that the user can mend; its text says what is wrong and what to do."""


def say(who: str, text: str) -> None:
    """One line on standard output, at once."""
    print(f"{who}: {text}", flush=True)


@contextmanager
def stage(who: str, what: str) -> Iterator[None]:
    """Say what begins, and how long it took when it is done."""
    say(who, f"{what} …")
    start = time.monotonic()
    yield
    say(who, f"{what}: {time.monotonic() - start:.1f} s")


def fail(who: str, error: UserError) -> int:
    """Tell a UserError in red where a terminal reads; the exit code to end with."""
    red, plain = ("\033[31m", "\033[0m") if sys.stderr.isatty() else ("", "")
    print(f"{red}{who}: {error}{plain}", file=sys.stderr, flush=True)
    return 1
