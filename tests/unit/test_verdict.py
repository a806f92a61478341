"""Decisions of `make test`: what is repeated, and when the gate is good."""

import json
from pathlib import Path

import pytest

from tools.verdict import MOST, Outcome, Verdict, read, repeated, together, verdict

GOOD = Outcome(0, passed=("a::t",))
BAD = Outcome(1, passed=("a::t",), failed=("a::u", "b::v"))


def test_a_good_run_repeats_nothing() -> None:
    assert repeated(GOOD) == ()
    assert verdict(GOOD) == Verdict(True)


def test_a_run_without_tests_is_good() -> None:
    assert verdict(Outcome(5)) == Verdict(True)


def test_what_failed_is_repeated_and_told_when_it_passes() -> None:
    assert repeated(BAD) == ("a::u", "b::v")
    second = Outcome(0, passed=("a::u", "b::v"))
    assert verdict(BAD, second) == Verdict(True, by_chance=("a::u", "b::v"))


def test_what_fails_twice_fails_the_gate() -> None:
    second = Outcome(1, passed=("a::u",), failed=("b::v",))
    assert verdict(BAD, second) == Verdict(False, "failed twice: b::v")


@pytest.mark.parametrize(
    "second",
    [None, Outcome(0, passed=("a::u",)), Outcome(5), Outcome(2, whole=False), Outcome(-9)],
    ids=["none", "one skipped", "no tests", "interrupted", "killed"],
)
def test_a_repetition_that_did_not_pass_all_is_not_enough(second: Outcome | None) -> None:
    assert not verdict(BAD, second).good


def test_a_failure_beside_the_repeated_tests_counts() -> None:
    second = Outcome(1, passed=("a::u", "b::v"), failed=("c",))
    assert verdict(BAD, second) == Verdict(False, "failed twice: c")


def test_a_file_that_could_not_be_read_passes_with_its_tests() -> None:
    first = Outcome(1, failed=("tests/a.py",))
    assert verdict(first, Outcome(0, passed=("tests/a.py::t",))).good
    assert not verdict(first, Outcome(0, passed=("tests/ab.py::t",))).good


@pytest.mark.parametrize(
    ("first", "why"),
    [
        (Outcome(2, failed=("a",), whole=False), "exit code 2"),
        (Outcome(-9, whole=False), "exit code -9"),
        (Outcome(1, failed=tuple(f"t{i}" for i in range(MOST + 1))), "too many to be chance"),
        (Outcome(1, failed=("a",), whole=False), "ended before all tests had run"),
        (Outcome(1), "no test that failed"),
        (Outcome(0, failed=("a",)), "exit code 0"),
    ],
    ids=str,
)
def test_no_repetition_helps(first: Outcome, why: str) -> None:
    assert repeated(first) == ()
    found = verdict(first, Outcome(0, passed=first.failed))
    assert not found.good
    assert why in found.why


def test_runs_together() -> None:
    none = Outcome(5)
    assert together([]) == Outcome(0)
    assert together([GOOD, none, BAD]) == Outcome(
        1, passed=("a::t", "a::t"), failed=("a::u", "b::v")
    )
    # A phase that was killed outweighs one whose tests failed.
    killed = together([BAD, Outcome(-9, whole=False), GOOD])
    assert repeated(killed) == ()
    assert not verdict(killed).good
    assert verdict(together([BAD, Outcome(3)])).why == "pytest ended with exit code 3"


def test_reading_what_was_recorded(tmp_path: Path) -> None:
    path = tmp_path / "record.json"
    assert read(path, 4) == Outcome(4, whole=False)
    path.write_text(json.dumps({"passed": ["a"], "failed": ["b"], "whole": True}))
    assert read(path, 1) == Outcome(1, ("a",), ("b",), True)


def test_a_good_exit_code_without_a_record_is_not_good(tmp_path: Path) -> None:
    assert not verdict(read(tmp_path / "none", 0)).good
