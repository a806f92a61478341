"""`make test`: lint, unit and end-to-end tests, with the time of each part.

`python -m tools.test [lint] [unit] [e2e]`; without a part, all. The unit tests run beside the
end-to-end tests, which mostly wait. Failed tests are repeated once at the end; see verdict.py.
"""

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from tests.record import PATH as RECORD
from tests.schedule import FIRST, LAST
from tests.shared import KEEP
from tools.paths import BUILD, REPOSITORY
from tools.stages import UserError, fail, say
from tools.verdict import MOST, Outcome, Verdict, read, repeated, together, verdict

WHO: Final = "test"
PARTS: Final = ("lint", "unit", "e2e")
WORKERS: Final = 3
"""Tests on the cluster that run at a time: they mostly wait, but real engines need the CPU."""
_BIN: Final = Path(sys.prefix) / "bin"
_CLUSTER: Final = "cluster or engine"
LINT: Final = {
    "lint": ("ruff", "check", "-q", "."),
    "format": ("ruff", "format", "-q", "--check", "."),
    "types": ("mypy",),
    "layers": ("lint-imports",),
}


class Job:
    """A command that runs in the background, its output in a file."""

    def __init__(
        self, name: str, command: list[str], environment: dict[str, str] | None = None
    ) -> None:
        self.name = name
        self.code = 0
        self.log = BUILD / "logs" / f"{name}.log"
        self.log.parent.mkdir(parents=True, exist_ok=True)
        self._start = time.monotonic()
        with self.log.open("w") as out:
            self._process = subprocess.Popen(
                command, cwd=REPOSITORY, stdout=out, stderr=subprocess.STDOUT, env=environment
            )

    def finish(self) -> bool:
        """Wait for its end; print all it said where it failed, else its last line."""
        code = self.code = self._process.wait()
        took = time.monotonic() - self._start
        text = self.log.read_text(errors="replace").rstrip()
        good = code == 0
        if not good:
            print(text, flush=True)
        lines = text.splitlines()
        last = lines[-1].strip("= ") if good and self.name == "unit" and lines else ""
        verdict = "good" if good else f"FAILED (exit code {code}; all of it is in {self.log})"
        say(WHO, f"{self.name}: {verdict} in {took:.1f} s{f': {last}' if last else ''}")
        return good


def _pytest(name: str, *arguments: str) -> list[str]:
    """A run of pytest whose outcome is kept under a name."""
    record = _record(name)
    record.parent.mkdir(parents=True, exist_ok=True)
    record.unlink(missing_ok=True)
    return [str(_BIN / "python"), "-m", "pytest", *arguments]


def _record(name: str) -> Path:
    return BUILD / "logs" / f"{name}.json"


def _environment(name: str, **more: str) -> dict[str, str]:
    return {**os.environ, RECORD: str(_record(name)), **more}


def lint() -> bool:
    """Lint, format, types and layers, all of them even where one fails."""
    jobs = [Job(name, [str(_BIN / command[0]), *command[1:]]) for name, command in LINT.items()]
    verdicts = [job.finish() for job in jobs]
    return all(verdicts)


def unit() -> Job:
    """Begin the tests that need no cluster; those on it, which wait for engines, come first."""
    command = ["nice", "-n", "15", *_pytest("unit", "-q", "-m", f"not ({_CLUSTER})", "-n", "2")]
    return Job("unit", command, _environment("unit"))


def e2e() -> Outcome:
    """The tests on the cluster, phase by phase, told as they go."""
    from tests import cluster  # noqa: PLC0415 - unit tests do without
    from tools import images  # noqa: PLC0415

    start = time.monotonic()
    cluster.up()
    images.load()
    say(WHO, f"cluster and images: {time.monotonic() - start:.1f} s")
    outcomes = [_phase(name, marks, workers) for name, marks, workers in phases(WORKERS)]
    found = together(outcomes)
    told = f"{len(found.passed)} passed, {len(found.failed)} failed"
    say(WHO, f"e2e: {told} in {time.monotonic() - start:.1f} s")
    return found


def phases(workers: int) -> list[tuple[str, str, int]]:
    """Name, marker expression and number of processes of each phase, in their order."""
    first, last = " or ".join(FIRST), " or ".join(LAST)
    return [
        ("first", f"({_CLUSTER}) and ({first})", 0),
        ("together", f"({_CLUSTER}) and not ({first} or {last})", workers),
        ("last", f"({_CLUSTER}) and ({last})", 0),
    ]


def _phase(name: str, marks: str, workers: int) -> Outcome:
    start = time.monotonic()
    say(WHO, f"e2e, {name}: {f'{workers} at a time' if workers else 'one after the other'} …")
    beside = ("-n", str(workers), "--dist", "loadgroup", "--no-loadscope-reorder")
    command = _pytest(name, "-v", "-m", marks, "--durations=12", f"--maxfail={MOST + 1}")
    if workers:
        command += beside
    # What is shared outlives a phase; the last one removes it.
    keep = {} if name == "last" else {KEEP: "1"}
    code = _run(command, _environment(name, **keep))
    found = read(_record(name), code)
    say(WHO, f"e2e, {name}: {'good' if found.good else 'FAILED'} in {_since(start)}")
    return found


def _run(command: list[str], environment: dict[str, str]) -> int:
    return subprocess.run(command, cwd=REPOSITORY, check=False, env=environment).returncode


def _since(start: float) -> str:
    return f"{time.monotonic() - start:.1f} s"


def judge(part: str, first: Outcome) -> Verdict:
    """The verdict of a part, its failed tests repeated; tells why it is not good."""
    second = None
    if names := repeated(first):
        say(WHO, f"{part}: repeating {len(names)} failed, one after the other …")
        name = f"{part}-repeated"
        code = _run(_pytest(name, "-v", "-p", "no:xdist", *names), _environment(name))
        second = read(_record(name), code)
    found = verdict(first, second)
    if not found.good:
        say(WHO, f"{part}: FAILED: {found.why}")
    return found


def main(parts: list[str]) -> int:
    """Run the parts asked for; 0 when all was good."""
    unknown = [part for part in parts if part not in PARTS]
    if unknown:
        return fail(WHO, UserError(f"unknown part {unknown[0]!r}; parts are {', '.join(PARTS)}"))
    wanted = parts or list(PARTS)
    start = time.monotonic()
    good = True
    outcomes = {}
    try:
        if "lint" in wanted:
            good = lint()
        units = unit() if "unit" in wanted else None
        try:
            if "e2e" in wanted:
                outcomes["e2e"] = e2e()
        finally:
            if units is not None:
                units.finish()
                outcomes["unit"] = read(_record("unit"), units.code)
        verdicts = [judge(part, outcome) for part, outcome in outcomes.items()]
    except UserError as error:
        return fail(WHO, error)
    good = good and all(found.good for found in verdicts)
    if chance := [name for found in verdicts for name in found.by_chance]:
        say(WHO, f"PASSED ONLY WHEN REPEATED: {', '.join(chance)}")
    say(WHO, f"{'all good' if good else 'FAILED'} in {time.monotonic() - start:.1f} s")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
