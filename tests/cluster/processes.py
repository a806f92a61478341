"""Programs of the cluster as processes: start, find, stop.

Each is started through a link in the run folder, so its command line tells whose it is: no file
with process ids can be stale, and what a killed run left is found the same way.
"""

import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.cluster.layout import RUN_ROOT, Layout
from tools.stages import UserError

SHIM: Final = "shim"
"""Name given to containerd's shims, of which there is one for each pod."""

_PATIENCE: Final = 3

_PROGRAM: Final = re.compile(rf"{RUN_ROOT}/([0-9a-f]{{8}})/bin/([a-z-]+)")
_SOCKET: Final = re.compile(rf"{RUN_ROOT}/([0-9a-f]{{8}})/containerd\.sock")


@dataclass(frozen=True)
class Process:
    """A program of a cluster; `run` is the cluster's run folder."""

    pid: int
    started: int
    """Clock ticks after boot; with the pid it names a process for ever."""
    run: Path
    name: str


def identify(command: Sequence[str]) -> tuple[Path, str] | None:
    """Run folder and program name that a command line tells; None for a stranger's."""
    # Between fork and exec the command line is still that of setsid.
    words = command[2:] if command[:2] == ["setsid", "--fork"] else command
    if not words:
        return None
    program = _PROGRAM.fullmatch(words[0])
    if program:
        return RUN_ROOT / program[1], program[2]
    if Path(words[0]).name.startswith("containerd-shim") and "-address" in words[:-1]:
        socket = _SOCKET.match(words[words.index("-address") + 1])
        if socket:
            return RUN_ROOT / socket[1], SHIM
    return None


def started(stat: str) -> int:
    """The start time in the text of /proc/PID/stat."""
    # The second field is the program's name in parentheses, which may hold anything.
    return int(stat.rpartition(")")[2].split()[19])


def _look(pid: int) -> Process | None:
    proc = Path("/proc") / str(pid)
    try:
        command = (proc / "cmdline").read_bytes().decode(errors="replace").split("\0")[:-1]
        found = identify(command)
        if found is None:
            return None
        return Process(pid, started((proc / "stat").read_text()), *found)
    except OSError:
        return None  # it ended meanwhile


def running(run: Path | None = None) -> list[Process]:
    """The processes of every cluster, or of the one with that run folder."""
    found = (_look(int(name)) for name in os.listdir("/proc") if name.isdecimal())
    return [process for process in found if process and run in (None, process.run)]


def kill(process: Process, number: signal.Signals = signal.SIGKILL) -> None:
    """Signal a process; never another one that has got its pid meanwhile."""
    try:
        handle = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return
    try:
        if _look(process.pid) == process:
            signal.pidfd_send_signal(handle, number)
    except ProcessLookupError:
        pass
    finally:
        os.close(handle)


def kill_member(pid: int, group: Path) -> None:
    """Kill a process that is still a member of the control group with that list of members."""
    try:
        handle = os.pidfd_open(pid)
    except ProcessLookupError:
        return
    try:
        if str(pid) in group.read_text().split():
            signal.pidfd_send_signal(handle, signal.SIGKILL)
    except (OSError, ProcessLookupError):
        pass
    finally:
        os.close(handle)


def end(choose: Callable[[Process], bool]) -> None:
    """Kill the chosen processes, and wait until they are gone."""
    wait(lambda: not _kill_all(filter(choose, running())), "the cluster's processes to end", 20)


def _kill_all(processes: Iterable[Process]) -> bool:
    some = False
    for process in processes:
        kill(process)
        some = True
    return some


def link(layout: Layout, name: str, executable: Path) -> Path:
    """The path to start a program by, which tells whose it is and which."""
    path = layout.run / "bin" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    path.symlink_to(executable)
    return path


def start(
    layout: Layout, name: str, executable: Path, arguments: Sequence[str], **environment: str
) -> None:
    """Start a program in a session of its own, its output in the log of its name."""
    program = link(layout, name, executable)
    with layout.log(name).open("ab") as log:
        subprocess.run(
            ["setsid", "--fork", str(program), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            cwd="/",
            env={"PATH": os.environ["PATH"], "HOME": "/root", **environment},
            check=True,
        )


def wait(condition: Callable[[], bool], what: str, timeout: float, pause: float = 0.1) -> None:
    """Wait for a condition; UserError that names it after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            raise UserError(f"waited {timeout:.0f} s in vain for {what}")
        time.sleep(pause)


def wait_with(
    layout: Layout, programs: Sequence[str], condition: Callable[[], bool], what: str
) -> None:
    """Wait for a condition that needs these programs; UserError as soon as one of them ends."""

    unseen = dict.fromkeys(programs, 0)

    def look() -> bool:
        if condition():
            return True
        alive = {process.name for process in running(layout.run)}
        for name in programs:
            # The command line is empty for a moment while a program takes another's place.
            unseen[name] = 0 if name in alive else unseen[name] + 1
            if unseen[name] > _PATIENCE:
                raise UserError(ended(name, layout.log(name)))
        return False

    try:
        wait(look, what, 60)
    except UserError as error:
        text = str(error)
        if "in vain" in text and programs:
            text += f"; see {layout.log(programs[-1])}"
        raise UserError(text) from None


def ended(name: str, log: Path, lines: int = 5) -> str:
    """Text for a program that ended at its start: where its log is and how it ends."""
    try:
        text = log.read_text(errors="replace").splitlines()[-lines:]
    except OSError:
        text = []
    last = "\n  ".join(line[:300] for line in text)
    return f"{name} ended at its start; its log is {log} and ends with:\n  {last}"
