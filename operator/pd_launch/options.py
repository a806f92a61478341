"""The command line."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass

from pd_launch import ports, supervisor


@dataclass(frozen=True)
class LaunchOptions:
    """What `launch` is told."""

    command: tuple[str, ...]
    health_port: int
    kill_seconds: float


def launch_options(arguments: Sequence[str]) -> LaunchOptions:
    """Parse what comes after `launch`; exits with code 2 and a message when it is wrong."""
    parser = argparse.ArgumentParser(
        prog="pd_launch launch", usage="%(prog)s [options] -- COMMAND [ARGUMENT…]"
    )
    parser.add_argument("--health-port", type=int, default=ports.HTTP, help="of the engine")
    parser.add_argument(
        "--kill-seconds",
        type=float,
        default=supervisor.KILL_SECONDS,
        help="after which an engine that is told to end while it starts is killed",
    )
    own, command = split(arguments)
    if not command:
        parser.error("no command after --")
    found = parser.parse_args(own)
    return LaunchOptions(
        command=tuple(command),
        health_port=found.health_port,
        kill_seconds=found.kill_seconds,
    )


def split(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """The launcher's own arguments, and the engine's: those after the first `--`."""
    own = list(arguments)
    if "--" not in own:
        return own, []
    at = own.index("--")
    return own[:at], own[at + 1 :]
