"""What amounts of resources may be."""

from decimal import Decimal
from typing import Final

MAX: Final = Decimal(2**63 - 1)
"""The API server lowers larger amounts to this one without a word."""


def is_whole(value: Decimal) -> bool:
    """Whether a quantity has no fraction."""
    return value == value.to_integral_value()
