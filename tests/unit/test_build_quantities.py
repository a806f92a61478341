"""Quantities in the form in which the API server stores them."""

import re
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pd_operator.build.quantities import canonical


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


FACTORS = {
    suffix: Decimal(base) ** power
    for base, suffixes in (
        (1000, ["", "k", "M", "G", "T", "P", "E"]),
        (1024, ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]),
    )
    for power, suffix in enumerate(suffixes)
} | {"m": Decimal("1e-3"), "u": Decimal("1e-6"), "n": Decimal("1e-9")}


@given(st.integers(0, 10**9), st.sampled_from(["", "m", "k", "M", "G", "T", "P", "Ki", "Mi", "Gi"]))
def test_canonical_text_stands_for_the_same_number(number: int, suffix: str) -> None:
    match = re.fullmatch("([0-9]+)([A-Za-z]*)", canonical(f"{number}{suffix}"))
    assert match is not None
    assert int(match[1]) * FACTORS[match[2]] == number * FACTORS[suffix]


@given(st.integers(0, 10**9), st.sampled_from(["", "m", "k", "M", "G", "Ki", "Mi", "Gi"]))
def test_canonical_text_is_canonical(number: int, suffix: str) -> None:
    text = canonical(f"{number}{suffix}")
    assert canonical(text) == text
