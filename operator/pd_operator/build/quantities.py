"""Quantities as the API server writes them.

The API server stores `0.5` as `500m` and `1024Mi` as `1Gi`. Children are rendered in that form,
so that a child read back equals the child as built.
"""

from decimal import ROUND_CEILING, Decimal
from typing import Final

from pd_operator.api.values import quantity

_NANO: Final = Decimal("1e-9")
_DECIMAL_SUFFIXES: Final = ("n", "u", "m", "", "k", "M", "G", "T", "P", "E")
_BINARY_SUFFIXES: Final = ("", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


def canonical(text: str) -> str:
    """A quantity in canonical form; ValueError where `text` is none."""
    value = quantity(text)
    if text.endswith("i") and value >= 1024:
        return _scaled(int(value.to_integral_value(ROUND_CEILING)), 1024, _BINARY_SUFFIXES)
    nanos = int((value / _NANO).to_integral_value(ROUND_CEILING))
    return _scaled(nanos, 1000, _DECIMAL_SUFFIXES)


def of_bytes(count: int) -> str:
    """So many bytes in canonical form."""
    return _scaled(count, 1000, _DECIMAL_SUFFIXES[3:])


def _scaled(number: int, base: int, suffixes: tuple[str, ...]) -> str:
    index = 0
    while number and index < len(suffixes) - 1 and number % base == 0:
        number //= base
        index += 1
    return f"{number}{suffixes[index]}" if number else "0"
