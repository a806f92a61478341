"""The process: what is asked for, and its exit code."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from pd_launch.check import preflight
from pd_launch.launch import launch
from pd_launch.model import download_all, wait
from pd_launch.options import launch_options

_USAGE = (
    "usage: pd_launch launch [options] -- COMMAND… | preflight [options] | download [options]"
    " | wait-for-model [options]"
)


def main(arguments: Sequence[str]) -> NoReturn:
    """Do what the arguments say and end the process."""
    mode, rest = (arguments[0], arguments[1:]) if arguments else ("", ())
    if mode == "launch":
        _leave(asyncio.new_event_loop().run_until_complete(launch(launch_options(rest))))
    if mode == "preflight":
        _leave(preflight(rest))
    if mode == "download":
        _leave(download_all(rest))
    if mode == "wait-for-model":
        _leave(wait(rest))
    sys.exit(_USAGE)


def _leave(code: int) -> NoReturn:
    """Exit at once: a thread that still resolves a name must not hold the pod."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
