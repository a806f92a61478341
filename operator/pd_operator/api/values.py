"""Values with a unit: durations and Kubernetes quantities."""

import re
from decimal import Decimal
from typing import Annotated, Final

from pydantic import AfterValidator, BeforeValidator, Field, WithJsonSchema

_DURATION: Final = re.compile(r"^([1-9][0-9]{0,8})(ms|s|m|h)$")
_DURATION_SECONDS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
_QUANTITY: Final = re.compile(r"^([0-9]{1,15}(?:\.[0-9]{1,9})?)(m|k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?$")
_QUANTITY_FACTOR: Final = {
    "": Decimal(1),
    "m": Decimal("0.001"),
    "k": Decimal(10**3),
    "M": Decimal(10**6),
    "G": Decimal(10**9),
    "T": Decimal(10**12),
    "P": Decimal(10**15),
    "Ki": Decimal(2**10),
    "Mi": Decimal(2**20),
    "Gi": Decimal(2**30),
    "Ti": Decimal(2**40),
    "Pi": Decimal(2**50),
}


def duration_seconds(text: str) -> float:
    """Seconds of a positive duration such as `50ms`, `2s`, `5m`; ValueError for anything else."""
    match = _DURATION.match(text)
    if match is None:
        raise ValueError(f"{text!r} is no duration; write a number with ms, s, m or h, like 50ms")
    return int(match[1]) * _DURATION_SECONDS[match[2]]


def quantity(text: str) -> Decimal:
    """The number that a Kubernetes quantity stands for; ValueError for anything else."""
    match = _QUANTITY.match(text)
    if match is None:
        raise ValueError(f"{text!r} is no quantity; write a number like 500m, 2, 64Mi or 1.5Gi")
    return Decimal(match[1]) * _QUANTITY_FACTOR[match[2] or ""]


def _checked_duration(text: str) -> str:
    duration_seconds(text)
    return text


def _checked_quantity(text: str) -> str:
    quantity(text)
    return text


def _number_to_text(value: object) -> object:
    # YAML reads `cpu: 2` as a number; Kubernetes takes both spellings.
    if isinstance(value, bool):
        return value
    return str(value) if isinstance(value, int | float) else value


Duration = Annotated[
    str,
    Field(max_length=12, pattern=r"^[1-9][0-9]{0,8}(ms|s|m|h)$"),
    AfterValidator(_checked_duration),
]
"""A positive duration: a whole number with ms, s, m or h."""

Quantity = Annotated[
    str,
    BeforeValidator(_number_to_text),
    AfterValidator(_checked_quantity),
    WithJsonSchema(
        {
            "x-kubernetes-int-or-string": True,
            "pattern": r"^[0-9]{1,15}(\.[0-9]{1,9})?(m|k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?$",
            "maxLength": 32,
        }
    ),
]
"""A Kubernetes resource quantity, not negative."""
