"""Durations and quantities."""

from decimal import Decimal

import pytest

from pd_operator.api.values import duration_seconds, quantity


@pytest.mark.parametrize(
    ("text", "seconds"), [("50ms", 0.05), ("2s", 2.0), ("5m", 300.0), ("1h", 3600.0)]
)
def test_duration(text: str, seconds: float) -> None:
    assert duration_seconds(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "5", "0s", "05s", "1.5s", "-1s", "1d", "1 s", "1000000000s"])
def test_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="is no duration"):
        duration_seconds(text)


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("0", "0"), ("2", "2"), ("500m", "0.5"), ("1.5Gi", "1610612736"), ("2G", "2000000000"),
        ("1k", "1000"), ("1Ki", "1024"),
    ],
)  # fmt: skip
def test_quantity(text: str, number: str) -> None:
    assert quantity(text) == Decimal(number)


@pytest.mark.parametrize("text", ["", "-1", "1e3", "1KB", "Gi", "1 Gi", "1.0000000001", ".5"])
def test_no_quantity(text: str) -> None:
    with pytest.raises(ValueError, match="is no quantity"):
        quantity(text)
