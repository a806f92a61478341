"""`download [options]`, what the download Job runs, and `wait-for-model`, before each engine."""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Sequence
from pathlib import Path

from pd_launch import signals
from pd_launch.download import DownloadError, download, from_hub, repository
from pd_launch.log import say

_PERIOD_SECONDS = 2.0


def download_all(arguments: Sequence[str]) -> int:
    """Download what the arguments say; the code to exit with, the cause in the result's file."""
    parser = argparse.ArgumentParser(prog="pd_launch download", allow_abbrev=False)
    add = parser.add_argument
    add("--repository", action="append", required=True, help="LINK=NAME[@REVISION]")
    add("--ignore", action="append", default=[], help="pattern of files that are left out")
    add("--result", default="/dev/termination-log")
    found = parser.parse_args(arguments)
    try:
        wanted = [repository(text) for text in found.repository]
    except ValueError as error:
        parser.error(str(error))
    # What is downloaded already stays for the next run.
    signals.end_at_once()
    # Engines read what this writes, whatever their user.
    os.umask(0o022)
    try:
        download(wanted, found.ignore, from_hub)
    except DownloadError as error:
        say(f"download: {error}")
        _write(found.result, str(error))
        return error.code
    return 0


def wait(arguments: Sequence[str]) -> int:
    """Wait until all links lead somewhere."""
    parser = argparse.ArgumentParser(prog="pd_launch wait-for-model", allow_abbrev=False)
    parser.add_argument("--link", action="append", required=True)
    parser.add_argument("--period-seconds", type=float, default=_PERIOD_SECONDS)
    found = parser.parse_args(arguments)
    signals.end_at_once()
    told = ""
    while missing := [link for link in found.link if not Path(link).is_dir()]:
        if missing[0] != told:
            told = missing[0]
            say(f"waits for {told}, which the download Job makes")
        time.sleep(found.period_seconds)
    say("the model is there")
    return 0


def _write(path: str, text: str) -> None:
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        say(f"cannot write {path}: {error.strerror}")
