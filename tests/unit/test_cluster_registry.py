"""The note that tells whose cluster runs."""

from pathlib import Path

import pytest

from tests.cluster.registry import Note, read, write


def test_a_note_is_read_as_it_was_written(tmp_path: Path) -> None:
    note = Note(Path("/x/.cluster"), "abc", {"vm/overcommit_memory": "0"}, ("ip nat",))
    write(note, tmp_path / "deep" / "note.json")
    assert read(tmp_path / "deep" / "note.json") == note


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"state": 1}', "null"])
def test_a_damaged_note_is_none(text: str, tmp_path: Path) -> None:
    (tmp_path / "note.json").write_text(text)
    assert read(tmp_path / "note.json") is None


def test_no_note_is_none(tmp_path: Path) -> None:
    assert read(tmp_path / "note.json") is None
