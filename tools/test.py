"""`make test`: lint, unit and end-to-end tests, with the time of each part.

`python -m tools.test [lint] [unit] [e2e]`; without a part, all. The unit tests run beside the
end-to-end tests, which mostly wait.
"""

import subprocess
import sys
import time
from pathlib import Path
from typing import Final

from tools.paths import BUILD, REPOSITORY
from tools.stages import UserError, fail, say

WHO: Final = "test"
PARTS: Final = ("lint", "unit", "e2e")
_BIN: Final = Path(sys.prefix) / "bin"
_CLUSTER: Final = "cluster or engine"
LINT: Final = {
    "lint": ("ruff", "check", "-q", "."),
    "format": ("ruff", "format", "-q", "--check", "."),
    "types": ("mypy",),
    "layers": ("lint-imports",),
}
_NO_TESTS: Final = 5
"""pytest's exit code where it selected nothing."""


class Job:
    """A command that runs in the background, its output in a file."""

    def __init__(self, name: str, command: list[str]) -> None:
        self.name = name
        self.log = BUILD / "logs" / f"{name}.log"
        self.log.parent.mkdir(parents=True, exist_ok=True)
        self._start = time.monotonic()
        with self.log.open("w") as out:
            self._process = subprocess.Popen(
                command, cwd=REPOSITORY, stdout=out, stderr=subprocess.STDOUT
            )

    def finish(self) -> bool:
        """Wait for its end; print all it said where it failed, else its last line."""
        code = self._process.wait()
        took = time.monotonic() - self._start
        text = self.log.read_text(errors="replace").rstrip()
        good = code in (0, _NO_TESTS)
        if not good:
            print(text, flush=True)
        lines = text.splitlines()
        last = lines[-1].strip("= ") if good and self.name in ("unit", "e2e") and lines else ""
        verdict = "good" if good else f"FAILED (exit code {code}; all of it is in {self.log})"
        say(WHO, f"{self.name}: {verdict} in {took:.1f} s{f': {last}' if last else ''}")
        return good


def _pytest(*arguments: str) -> list[str]:
    return [str(_BIN / "python"), "-m", "pytest", "-q", *arguments]


def lint() -> bool:
    """Lint, format, types and layers, all of them even where one fails."""
    jobs = [Job(name, [str(_BIN / command[0]), *command[1:]]) for name, command in LINT.items()]
    verdicts = [job.finish() for job in jobs]
    return all(verdicts)


def unit() -> Job:
    """Begin the tests that need no cluster."""
    return Job("unit", _pytest("-m", f"not ({_CLUSTER})", "-n", "2"))


def e2e() -> bool:
    """The tests on the cluster, one after the other, told as they go."""
    from tests import cluster  # noqa: PLC0415 - unit tests do without
    from tools import images  # noqa: PLC0415

    start = time.monotonic()
    cluster.up()
    images.load()
    say(WHO, f"cluster and images: {time.monotonic() - start:.1f} s")
    start = time.monotonic()
    command = _pytest("-m", _CLUSTER, "-v", "--durations=12", "--maxfail=8")
    code = subprocess.run(command, cwd=REPOSITORY, check=False).returncode
    good = code in (0, _NO_TESTS)
    say(WHO, f"e2e: {'good' if good else 'FAILED'} in {time.monotonic() - start:.1f} s")
    return good


def main(parts: list[str]) -> int:
    """Run the parts asked for; 0 when all was good."""
    unknown = [part for part in parts if part not in PARTS]
    if unknown:
        return fail(WHO, UserError(f"unknown part {unknown[0]!r}; parts are {', '.join(PARTS)}"))
    wanted = parts or list(PARTS)
    start = time.monotonic()
    good = True
    try:
        if "lint" in wanted:
            good = lint()
        units = unit() if "unit" in wanted else None
        try:
            if "e2e" in wanted:
                good = e2e() and good
        finally:
            if units is not None:
                good = units.finish() and good
    except UserError as error:
        return fail(WHO, error)
    say(WHO, f"{'all good' if good else 'FAILED'} in {time.monotonic() - start:.1f} s")
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
