"""The engine's process: start, signals, end. Everything that it leaves behind is reaped."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import Mapping, Sequence

from pd_launch.log import say
from pd_launch.signals import name

NOT_FOUND = 127
NOT_EXECUTABLE = 126
"""Exit codes of a command that cannot be started: the shell's."""


def exit_code(status: int) -> int:
    """The code for a status of wait(): the process's own, or 128 and the signal's number."""
    if os.WIFSIGNALED(status):
        return 128 + os.WTERMSIG(status)
    return os.WEXITSTATUS(status)


class Engine:
    """One command, run once, as the leader of its own session and process group."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self._environment = dict(environment)
        self._process: subprocess.Popen[bytes] | None = None
        self.ended = asyncio.Event()
        self.code: int | None = None

    @property
    def runs(self) -> bool:
        """Started, and not ended yet."""
        return self._process is not None and self.code is None

    def start(self, command: Sequence[str]) -> None:
        """Start it. When that fails, it has ended with the shell's code for it."""
        try:
            self._process = subprocess.Popen(  # noqa: S603 - the pod's own command
                list(command), env=self._environment, start_new_session=True
            )
        except OSError as error:
            self.code = NOT_FOUND if isinstance(error, FileNotFoundError) else NOT_EXECUTABLE
            say(f"cannot start {command[0]}: {error.strerror}")
            self.ended.set()
            return
        say(f"started {command[0]} as process {self._process.pid}")
        self.reap()

    def reap(self) -> None:
        """Take the status of every child that has ended; as process 1 also of orphans."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return
            if pid == 0:
                return
            if self._process is not None and pid == self._process.pid:
                self._end(exit_code(status))

    def send(self, number: int) -> None:
        """Send a signal to the engine's first process, which tells the others itself."""
        if self._process is not None and self.code is None:
            # Not reaped yet, so the number still means this process.
            os.kill(self._process.pid, number)

    def kill(self) -> None:
        """End the whole process group at once. Safe at any time, also twice."""
        if self._process is None:
            return
        # Otherwise nothing is left of it, or zombies alone.
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)

    def _end(self, code: int) -> None:
        assert self._process is not None  # noqa: S101
        self.code = code
        self._process.returncode = code
        how = f"by {name(code - 128)}" if code > 128 else f"with code {code}"
        say(f"the engine ended {how}")
        self.ended.set()
