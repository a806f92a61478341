"""The launcher as a pod runs it: its files in a folder like a ConfigMap's, a process of its own."""

import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pd_operator.build.launcher import PACKAGE, launcher_files

PYTHON = os.environ.get("PD_LAUNCH_PYTHON", sys.executable)
"""The Python that stands for the engine image's."""

BOUND_SECONDS = 120.0
"""How long a busy machine may take for what happens at once on an idle one."""

ENGINE = """
import http.server, os, signal, subprocess, sys, threading
# arguments: port, file of the process ids, code that it exits with on SIGTERM ("" for none)
port, pids, code = int(sys.argv[1]), sys.argv[2], sys.argv[3]
rank = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
if code:
    signal.signal(signal.SIGTERM, lambda *_: os._exit(int(code)))
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.send_header("Content-Length", "0"); self.end_headers()
    def log_message(self, *_):
        pass
if port:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Handler)
with open(pids + ".new", "w") as file:
    file.write(" ".join([str(os.getpid()), str(rank.pid), *sys.argv[4:]]))
os.rename(pids + ".new", pids)
if port:
    server.serve_forever()
threading.Event().wait()
"""
"""An engine with one more rank."""


def until(done: Callable[[], object], what: str) -> None:
    """Wait for what must come; only a machine that stands still fails here."""
    end = time.monotonic() + BOUND_SECONDS
    while not done():
        if time.monotonic() > end:
            raise AssertionError(f"never: {what}")
        time.sleep(0.02)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        return "\nState:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def mounted(tmp_path: Path) -> Path:
    """The launcher's folder, with the links that the kubelet makes."""
    folder = tmp_path / PACKAGE
    if not folder.exists():
        data = folder / "..2026_01_01"
        data.mkdir(parents=True)
        (folder / "..data").symlink_to(data.name)
        for name, text in launcher_files().items():
            (data / name).write_text(text)
            (folder / name).symlink_to(f"..data/{name}")
    return folder


class Launched:
    """A running launcher."""

    def __init__(self, folder: Path, log: Path, *arguments: str, env: dict[str, str]) -> None:
        self.log_path = log
        self._mark = f"PD_TEST_LAUNCHED={secrets.token_hex(8)}"
        name, _, value = self._mark.partition("=")
        with log.open("w") as output:
            self.process = subprocess.Popen(
                [PYTHON, "-I", "-B", str(folder), *arguments],
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **env, name: value},
            )

    @property
    def log(self) -> str:
        return self.log_path.read_text()

    def logged(self, text: str) -> None:
        """Wait for words in the log."""
        until(lambda: text in self.log or self.process.poll() is not None, text)
        assert text in self.log

    def send(self, number: int) -> None:
        self.process.send_signal(number)

    def end_all(self) -> None:
        """End what the launcher started and could not end itself: known by its environment."""
        for process in Path("/proc").iterdir():
            if not process.name.isdigit():
                continue
            with suppress(OSError):
                if self._mark.encode() in (process / "environ").read_bytes():
                    os.kill(int(process.name), signal.SIGKILL)

    def ends(self) -> int:
        """Wait for the end: the exit code."""
        return self.process.wait(BOUND_SECONDS)


@contextmanager
def launched(
    tmp_path: Path, *arguments: str, name: str = "launcher", env: dict[str, str] | None = None
) -> Iterator[Launched]:
    """A launcher that is gone afterwards, with all that it started."""
    running = Launched(mounted(tmp_path), tmp_path / f"{name}.log", *arguments, env=env or {})
    try:
        yield running
    finally:
        if running.process.poll() is None:
            running.send(signal.SIGCONT)
            running.process.kill()
            running.process.wait()
        running.end_all()


@contextmanager
def pids(path: Path) -> Iterator[Callable[[], list[int]]]:
    """Waits for the engine's processes when called; they are gone afterwards."""

    def read() -> list[int]:
        until(path.exists, f"{path.name} written by the engine")
        return [int(word) for word in path.read_text().split()[:2]]

    try:
        yield read
    finally:
        for pid in read() if path.exists() else ():
            if alive(pid):
                os.kill(pid, signal.SIGKILL)
