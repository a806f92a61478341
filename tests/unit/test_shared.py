"""What processes of one run share is made by one of them."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests import shared


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared, "_FOLDER", tmp_path / "shared")


def test_many_at_once_make_it_once() -> None:
    # Each opens the lock's file itself, as processes do.
    assert not shared.used()
    made = []
    with ThreadPoolExecutor(4) as pool:
        asked = [pool.submit(shared.once, "thing", lambda: made.append(1)) for _ in range(4)]
    assert [one.result() for one in asked] == [None] * 4
    assert made == [1]
    assert shared.used()


def test_the_next_run_makes_it_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    shared.once("thing", lambda: made.append(1))
    monkeypatch.setattr(shared, "RUN", "another")
    assert not shared.used()
    shared.once("thing", lambda: made.append(2))
    shared.once("thing", lambda: made.append(3))
    assert made == [1, 2]


def test_what_could_not_be_made_is_tried_again() -> None:
    def fail() -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        shared.once("thing", fail)
    made = []
    shared.once("thing", lambda: made.append(1))
    assert made == [1]
