"""Running another program to its end."""

import subprocess
from collections.abc import Sequence

from tools.stages import UserError


def run(command: Sequence[str], timeout: float = 300, text: str = "") -> str:
    """What a command printed, `text` being its input; UserError with its last words on failure."""
    told = " ".join(command[:4])
    try:
        done = subprocess.run(
            command,
            input=text,
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout,
        )
    except FileNotFoundError:
        raise UserError(f"{command[0]} is missing; install it") from None
    except subprocess.TimeoutExpired:
        raise UserError(f"`{told} …` did not end in {timeout:.0f} s") from None
    if done.returncode != 0:
        words = (done.stderr or done.stdout).strip().splitlines() or ["it printed nothing"]
        raise UserError(f"`{told} …` failed: {words[-1].strip()}")
    return done.stdout


def attempt(*command: str) -> str:
    """What a command printed; empty where it failed or is not there."""
    try:
        return run(command)
    except UserError:
        return ""
