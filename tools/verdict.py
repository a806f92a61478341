"""What runs of pytest mean for the gate: which tests are repeated, and whether it is good.

A test that fails is repeated once, alone. It must pass then, and it is told: one that fails by
chance has a cause that somebody has to find.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final

MOST: Final = 8
"""More failed tests than these are not chance, and are not repeated."""
_FAILED: Final = 1
_NO_TESTS: Final = 5
"""pytest's exit codes where tests failed, and where it selected none."""


@dataclass(frozen=True)
class Outcome:
    """What one run of pytest came to."""

    code: int
    passed: tuple[str, ...] = ()
    failed: tuple[str, ...] = ()
    whole: bool = True
    """It did not end before all tests had run."""

    @property
    def good(self) -> bool:
        """Whether all ran and nothing failed."""
        return self.whole and self.code in (0, _NO_TESTS) and not self.failed


@dataclass(frozen=True)
class Verdict:
    """What is told of a part of the gate."""

    good: bool
    why: str = ""
    """Why it is not good."""
    by_chance: tuple[str, ...] = ()
    """Tests that passed only when they were repeated."""


def read(path: Path, code: int) -> Outcome:
    """The outcome that tests/record.py wrote; a run that ended before it could is not whole."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return Outcome(code, whole=False)
    return Outcome(code, tuple(found["passed"]), tuple(found["failed"]), found["whole"])


def together(outcomes: list[Outcome]) -> Outcome:
    """Several runs as one; the worst exit code tells."""
    codes = [o.code for o in outcomes if not o.good]
    return Outcome(
        max(codes, default=0),
        tuple(name for o in outcomes for name in o.passed),
        tuple(name for o in outcomes for name in o.failed),
        all(o.whole for o in outcomes),
    )


def repeated(first: Outcome) -> tuple[str, ...]:
    """Ids of the tests to run once more; none where that would change nothing."""
    if first.good or first.code != _FAILED or not first.whole or len(first.failed) > MOST:
        return ()
    return first.failed


def verdict(first: Outcome, second: Outcome | None = None) -> Verdict:
    """The verdict of a run and, where tests were repeated, of the repetition."""
    if first.good:
        return Verdict(True)
    asked = repeated(first)
    if not asked:
        return Verdict(False, _why(first))
    if second is None:
        return Verdict(False, "failed tests were not repeated")
    again = [name for name in asked if not _passed(name, second)]
    if again or not second.good:
        return Verdict(False, f"failed twice: {', '.join(again or second.failed)}")
    return Verdict(True, by_chance=asked)


def _passed(name: str, outcome: Outcome) -> bool:
    """Whether a test, or all that ran of a file, passed."""
    ran = [p for p in outcome.passed if p == name or p.startswith(f"{name}::")]
    return bool(ran) and name not in outcome.failed


def _why(outcome: Outcome) -> str:
    if outcome.code != _FAILED:
        return f"pytest ended with exit code {outcome.code}"
    if len(outcome.failed) > MOST:
        return f"{len(outcome.failed)} tests failed: too many to be chance"
    if not outcome.whole:
        return "the run ended before all tests had run"
    return "pytest tells of no test that failed"
