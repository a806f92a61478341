"""Hashes in names and annotations."""

import yaml

from pd_operator.build.hashing import short_hash


def test_equal_values_have_equal_hashes() -> None:
    assert short_hash({"a": 1, "b": [2]}) == short_hash({"b": [2], "a": 1})
    assert short_hash({"a": 1}) != short_hash({"a": 2})
    assert short_hash("x", 16).startswith(short_hash("x"))


def test_no_reader_takes_a_hash_for_anything_but_text() -> None:
    """kubectl reads 01549564 as a number and 1234e567 as another one."""
    for number in range(2000):
        text = short_hash(number)
        assert len(text) == 8
        assert text.isalpha()
        assert yaml.safe_load(text) == text
