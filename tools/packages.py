"""Debian packages that the machine lacks."""

import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path

from tools.paths import cache
from tools.stages import UserError, stage


def missing(names: Iterable[str]) -> list[str]:
    """Those of the packages that are not installed, in the order given."""
    wanted = list(names)
    done = subprocess.run(
        ["dpkg-query", "-W", "-f", "${Package} ${db:Status-Status}\n", *wanted],
        capture_output=True,
        text=True,
        check=False,
    )
    installed = {
        line.split()[0] for line in done.stdout.splitlines() if line.endswith(" installed")
    }
    return [name for name in wanted if name not in installed]


def ensure(names: Iterable[str]) -> None:
    """Install those of the packages that are missing.

    Raises UserError where that cannot be: no Debian, no root, no archive reachable.
    """
    wanted = list(names)
    if shutil.which("apt-get") is None or shutil.which("dpkg-query") is None:
        raise UserError(f"this needs Debian or Ubuntu with apt-get, for: {' '.join(wanted)}")
    if not missing(wanted):
        return
    if os.geteuid() != 0:
        raise UserError(
            f"packages are missing; run as root: apt-get install {' '.join(missing(wanted))}"
        )
    cache().mkdir(parents=True, exist_ok=True)
    with Path(cache() / "apt.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # two commands of the project must not race
        absent = missing(wanted)
        if not absent:
            return
        with stage("packages", f"installing {' '.join(absent)}"):
            _apt("update")
            _apt("install", "-y", "--no-install-recommends", *absent)


def _apt(*arguments: str) -> None:
    done = subprocess.run(
        ["apt-get", "-q", "-o", "DPkg::Lock::Timeout=120", *arguments],
        env={**os.environ, "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        tail = "\n".join(done.stdout.splitlines()[-15:])
        raise UserError(f"apt-get {' '.join(arguments)} failed; its last lines:\n{tail}")
