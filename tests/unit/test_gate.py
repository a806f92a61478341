"""`make test` as a whole, its commands replaced."""

import json
from pathlib import Path

import pytest

from tests import record
from tools import test as gate
from tools.verdict import Outcome, Verdict

FAILED = Outcome(1, passed=("a::t",), failed=("a::u[x y]",))


class Pytest:
    """Stands for the process: writes what it is told to, and keeps what it was asked."""

    def __init__(self, code: int, **content: object) -> None:
        self.asked: list[list[str]] = []
        self._code = code
        self._content = {"passed": [], "failed": [], "whole": True, **content}

    def __call__(self, command: list[str], environment: dict[str, str]) -> int:
        self.asked.append(command)
        Path(environment[record.PATH]).write_text(json.dumps(self._content))
        return self._code


@pytest.fixture(autouse=True)
def build(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "BUILD", tmp_path)


def test_a_failed_test_is_repeated_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    process = Pytest(0, passed=["a::u[x y]"])
    monkeypatch.setattr(gate, "_run", process)
    assert gate.judge("unit", FAILED) == Verdict(True, by_chance=("a::u[x y]",))
    (command,) = process.asked
    assert command[-1] == "a::u[x y]"
    assert "no:xdist" in command


def test_a_test_that_fails_again_fails_its_part(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gate, "_run", Pytest(1, failed=["a::u[x y]"]))
    assert not gate.judge("unit", FAILED).good
    assert "unit: FAILED: failed twice: a::u[x y]" in capsys.readouterr().out


def test_a_good_part_repeats_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    process = Pytest(0)
    monkeypatch.setattr(gate, "_run", process)
    assert gate.judge("unit", Outcome(0, passed=("a::t",))).good
    assert process.asked == []


def test_chance_is_told_at_the_end(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gate, "e2e", lambda: FAILED)
    monkeypatch.setattr(gate, "_run", Pytest(0, passed=["a::u[x y]"]))
    assert gate.main(["e2e"]) == 0
    chance, last = capsys.readouterr().out.splitlines()[-2:]
    assert chance == "test: PASSED ONLY WHEN REPEATED: a::u[x y]"
    assert last.startswith("test: all good in")


def test_a_part_that_fails_fails_the_gate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gate, "e2e", lambda: Outcome(2, whole=False))
    assert gate.main(["e2e"]) == 1


def test_each_test_on_the_cluster_is_in_one_phase() -> None:
    first, together, last = (marks for _, marks, _ in gate.phases(3))
    assert first == "(cluster or engine) and (leftovers or untouched)"
    assert together == (
        "(cluster or engine) and not (leftovers or untouched or alone or uninstalls)"
    )
    assert last == "(cluster or engine) and (alone or uninstalls)"
