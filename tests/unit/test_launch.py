"""The launcher as process 1: signals, exit codes, what it leaves behind."""

import ast
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pd_launch import ports as launch_ports
from pd_operator.build.launcher import launcher_files
from pd_shared import ports
from tests.launcher import (
    ENGINE,
    PYTHON,
    Launched,
    alive,
    free_port,
    launched,
    mounted,
    pids,
    until,
)

SUBREAPER = (
    "import ctypes, os, sys; ctypes.CDLL(None).prctl(36, 1, 0, 0, 0); os.execv(sys.argv[1],"
    " sys.argv[1:])"
)
"""Orphans go to the launcher, as they go to process 1 of a pod."""


@contextmanager
def engine(
    tmp_path: Path, *options: str, serves: bool, code: str = ""
) -> Iterator[tuple[Launched, list[int]]]:
    """A launcher with an engine that has started, or that is still starting for ever."""
    port = free_port()
    file = tmp_path / "pids"
    command = (sys.executable, "-c", ENGINE, str(port if serves else 0), str(file), code)
    with (
        pids(file) as read,
        launched(tmp_path, "launch", f"--health-port={port}", *options, "--", *command) as run,
    ):
        found = read()
        if serves:
            run.logged("the engine is healthy")
        yield run, found


def test_constants_are_the_shared_ones() -> None:
    mine = {name: value for name, value in vars(launch_ports).items() if name.isupper()}
    assert mine == {name: getattr(ports, name) for name in mine}
    assert {"HTTP", "GROUP", "GROUP_HEALTH"} <= set(mine)


def test_files_are_python_3_9_and_fit_a_config_map() -> None:
    files = launcher_files()
    assert "__main__.py" in files
    assert sum(len(text.encode()) for text in files.values()) < 200_000
    for name, text in files.items():
        ast.parse(text, name, feature_version=(3, 9))


@pytest.mark.parametrize("code", [0, 3, 77])
def test_exits_with_the_code_of_the_engine(tmp_path: Path, code: int) -> None:
    with launched(tmp_path, "launch", "--", "sh", "-c", f"exit {code}") as run:
        assert run.ends() == code
        assert f"the engine ended with code {code}" in run.log


def test_exits_with_128_and_the_signal_of_the_engine(tmp_path: Path) -> None:
    with launched(tmp_path, "launch", "--", "sh", "-c", "kill -SEGV $$") as run:
        assert run.ends() == 128 + signal.SIGSEGV
        assert "the engine ended by SIGSEGV" in run.log


def test_a_command_that_is_not_there(tmp_path: Path) -> None:
    with launched(tmp_path, "launch", "--", "/no/such/engine") as run:
        assert run.ends() == 127
        assert "cannot start /no/such/engine: No such file" in run.log


def test_a_command_that_cannot_be_run(tmp_path: Path) -> None:
    (tmp_path / "engine").write_text("")
    with launched(tmp_path, "launch", "--", str(tmp_path / "engine")) as run:
        assert run.ends() == 126


@pytest.mark.parametrize(
    "arguments",
    [("launch",), ("launch", "--"), ("launch", "--what", "--", "true"), ("lunch",), ()],
)
def test_wrong_usage(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    with launched(tmp_path, *arguments) as run:
        assert run.ends() in (1, 2)
        assert "usage: " in run.log


def test_the_command_keeps_its_own_dashes_and_environment(tmp_path: Path) -> None:
    script = 'echo "$0 $@ $PYTHONPATH"'
    arguments = ("launch", "--", "sh", "-c", script, "a", "--", "--b={node_rank}")
    with launched(tmp_path, *arguments, env={"PYTHONPATH": "/theirs"}) as run:
        assert run.ends() == 0
        assert "a -- --b={node_rank} /theirs" in run.log


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_an_engine_that_starts_ends_by_default(tmp_path: Path, number: signal.Signals) -> None:
    # As process 1 it would not notice. sleep has no handler, like Python before vLLM has one.
    with launched(tmp_path, "launch", "--", "sleep", "600") as run:
        run.logged("started sleep")
        run.send(number)
        assert run.ends() == 128 + number
        assert f"{number.name} passed on to the engine, which is starting" in run.log


def test_an_engine_that_hangs_in_its_start_is_killed_with_its_ranks(tmp_path: Path) -> None:
    stuck = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n" + ENGINE
    file = tmp_path / "pids"
    command = (sys.executable, "-c", stuck, "0", str(file), "")
    options = (f"--health-port={free_port()}", "--kill-seconds=0.2")
    with pids(file) as read, launched(tmp_path, "launch", *options, "--", *command) as run:
        found = read()
        run.send(signal.SIGTERM)
        assert run.ends() == 128 + signal.SIGKILL
        assert "has not ended in 0.2 s and is killed" in run.log
        until(lambda: not any(map(alive, found)), "all ranks have ended")


def test_an_engine_that_drains_may_take_its_time(tmp_path: Path) -> None:
    release = tmp_path / "release"
    drains = f"""
import os, signal, threading, time
def drain():
    print("drains", flush=True)
    while not os.path.exists({str(release)!r}): time.sleep(0.02)
    os._exit(5)
signal.signal(signal.SIGTERM, lambda *_: threading.Thread(target=drain).start())
"""
    port, file = free_port(), tmp_path / "pids"
    options = (f"--health-port={port}", "--kill-seconds=0.05")
    command = (sys.executable, "-c", drains + ENGINE, str(port), str(file), "")
    with pids(file) as read, launched(tmp_path, "launch", *options, "--", *command) as run:
        read()
        run.logged("the engine is healthy")
        for _ in range(5):
            run.send(signal.SIGTERM)
        run.logged("drains")
        time.sleep(0.5)  # many times the bound of an engine that starts
        assert run.process.poll() is None
        release.touch()
        assert run.ends() == 5
        assert run.log.count("drains") == 1


def test_repeated_signals_are_passed_on_once(tmp_path: Path) -> None:
    counts = """
trap 'echo got TERM; n=$((n+1))' TERM
echo up
while [ ! -e "$0" ]; do sleep 0.05; done
exit $n
"""
    go = tmp_path / "go"
    with launched(tmp_path, "launch", "--", "sh", "-c", counts, str(go)) as run:
        run.logged("up\n")
        for _ in range(20):
            run.send(signal.SIGTERM)
        run.logged("got TERM")
        go.touch()
        assert run.ends() == 1
        assert run.log.count("passed on") == 1


def test_ranks_that_outlive_the_engine_are_ended(tmp_path: Path) -> None:
    with engine(tmp_path, serves=True, code="0") as (run, (first, rank)):
        assert alive(first)
        assert alive(rank)
        run.send(signal.SIGTERM)
        assert run.ends() == 0
        until(lambda: not alive(rank), "the rank has ended")


def test_orphans_are_reaped(tmp_path: Path) -> None:
    # A process in a session of its own, whose parent ends: process 1 must take its status.
    script = """
(setsid sh -c 'echo orphan $$; exit 0' &)
read line
"""
    folder = mounted(tmp_path)
    command = [sys.executable, "-c", SUBREAPER, PYTHON, "-I", "-B", str(folder), "launch"]
    with subprocess.Popen(
        [*command, "--", "sh", "-c", script],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert process.stdin
        assert process.stdout
        orphan = int(process.stdout.readline().split()[1])
        until(lambda: not Path(f"/proc/{orphan}").exists(), "the orphan has been reaped")
        process.stdin.write("\n")
        process.stdin.close()
        assert process.wait() == 0


def test_a_signal_before_the_loop_is_not_lost(tmp_path: Path) -> None:
    # The interpreter is told before it has the launcher's modules.
    folder = mounted(tmp_path)
    early = (
        "import os, runpy, signal, sys; from unittest import mock;"
        f"sys.path.insert(0, {str(tmp_path)!r}); sys.argv = ['x', 'launch', '--', 'sleep', '600'];"
        "from pd_launch import signals; catch = signals.catch;"
        "signals.catch = lambda: (catch(), os.kill(os.getpid(), signal.SIGTERM));"
        f"runpy.run_path({str(folder)!r}, run_name='__main__')"
    )
    done = subprocess.run([PYTHON, "-c", early], stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 128 + signal.SIGTERM
    assert "SIGTERM before the engine was started" in done.stderr
