"""Quantities in the form in which the API server stores them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pd_operator.build.quantities import canonical
from tests.acceptable import FACTORS, number


@pytest.mark.parametrize(
    ("given_text", "expected"),
    [
        ("0", "0"),
        ("0Gi", "0"),
        ("2", "2"),
        ("0.5", "500m"),
        ("1000m", "1"),
        ("1500m", "1500m"),
        ("1500000", "1500k"),
        ("2000M", "2G"),
        ("1024Mi", "1Gi"),
        ("1.5Gi", "1536Mi"),
        ("0.5Ki", "512"),
        ("1025Ki", "1025Ki"),
        ("1.0001Ki", "1025"),
        ("0.0001", "100u"),
        ("100Mi", "100Mi"),
        ("1000Ki", "1000Ki"),
    ],
)
def test_canonical(given_text: str, expected: str) -> None:
    assert canonical(given_text) == expected


@given(st.integers(0, 10**9), st.sampled_from(["", "m", "k", "M", "G", "T", "P", "Ki", "Mi", "Gi"]))
def test_canonical_text_stands_for_the_same_number(amount: int, suffix: str) -> None:
    assert number(canonical(f"{amount}{suffix}")) == amount * FACTORS[suffix]


@given(st.integers(0, 10**8), st.sampled_from(["", "m", "k", "M", "G", "Ki", "Mi", "Gi"]))
def test_canonical_text_is_canonical(amount: int, suffix: str) -> None:
    text = canonical(f"{amount}{suffix}")
    assert canonical(text) == text
