"""Types of a pod's fields: a value of the wrong type, found before the API server refuses a child.

The table is generated (`tools/pod_fields.py`). A field that it lacks may be one of a newer
Kubernetes: of those the API server judges alone.
"""

import json
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import resources
from typing import Any, Final

from pd_operator.api.values import quantity

_QUANTITIES: Final = frozenset({"divisor", "sizeLimit"})
_QUANTITY_MAPS: Final = frozenset({"limits", "requests"})
_SCALARS: Final[Mapping[str, tuple[type, str]]] = {
    "bool": (bool, "must be true or false"),
    "int": (int, "must be a whole number"),
    "str": (str, "must be text; put it in quotes"),
}

Found = Iterator[tuple[str, str]]
"""Path of a field, and what is wrong there."""


@cache
def _table() -> dict[str, dict[str, str]]:
    text = resources.files(__package__).joinpath("pod_fields.json").read_text("utf-8")
    result: dict[str, dict[str, str]] = json.loads(text)
    return result


def type_problems(path: str, spec: Any) -> Found:
    """What of a pod's spec, or of a part of one, has a type that Kubernetes would refuse."""
    return _value(path, spec, "V1PodSpec")


def _value(path: str, value: Any, kind: str) -> Found:
    if kind in _table():
        yield from _object(path, value, _table()[kind])
    elif kind.startswith("List["):
        if not isinstance(value, list):
            yield path, "must be a list"
            return
        inner = kind.removeprefix("List[").removesuffix("]")
        for index, element in enumerate(value):
            yield from _value(f"{path}[{index}]", element, inner)
    elif kind.startswith("Dict["):
        if not isinstance(value, Mapping):
            yield path, "must be a map"
            return
        for key, element in value.items():
            yield from _value(f"{path}[{key}]", element, "str")
    elif kind in _SCALARS:
        of, message = _SCALARS[kind]
        # For Python true is a number as well.
        if not isinstance(value, of) or isinstance(value, bool) != (of is bool):
            yield path, message


def _object(path: str, value: Any, fields: Mapping[str, str]) -> Found:
    if not isinstance(value, Mapping):
        yield path, "must be a map"
        return
    for key, element in value.items():
        inner = f"{path}.{key}"
        kind = fields.get(key)
        if kind is None:
            continue
        if key in _QUANTITIES:
            yield from _quantity(inner, element)
        elif key in _QUANTITY_MAPS and isinstance(element, Mapping):
            for name, amount in element.items():
                yield from _quantity(f"{inner}[{name}]", amount)
        else:
            yield from _value(inner, element, kind)


def _quantity(path: str, value: Any) -> Found:
    try:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise ValueError
        quantity(str(value))
    except ValueError:
        yield path, "must be a quantity, such as 500m or 1Gi"
