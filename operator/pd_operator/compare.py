"""Whether a live object still is what was applied; pure.

The API server adds defaults and other managers add fields of their own, so the live object must
contain the desired one and may hold more. What was dropped from the desired object since the last
apply cannot be seen that way; for that each child carries a hash of what was applied.
"""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Final

from pd_operator.api.values import quantity
from pd_operator.build.hashing import short_hash

_KEYS: Final[dict[str, tuple[str, ...]]] = {
    "containers": ("name",),
    "env": ("name",),
    "imagePullSecrets": ("name",),
    "initContainers": ("name",),
    "ownerReferences": ("uid",),
    "ports": ("containerPort", "port", "protocol"),
    "topologySpreadConstraints": ("topologyKey", "whenUnsatisfiable"),
    "volumeMounts": ("mountPath",),
    "volumes": ("name",),
}
"""Lists that server-side apply merges by key: others may have added elements to them."""

_KEY_DEFAULTS: Final = {"protocol": "TCP"}
_QUANTITY_MAPS: Final = frozenset({"requests", "limits"})
_QUANTITIES: Final = frozenset({"divisor", "sizeLimit"})
"""Fields that the API server writes in a form of its own; an override may have any other."""


def digest(manifest: Mapping[str, Any]) -> str:
    """Hash of a manifest, 16 letters; equal for equal content."""
    return short_hash(manifest, 16)


def contains(live: Any, desired: Any, name: str = "") -> bool:
    """Whether `live` holds all of `desired`; `name` is the field that holds both."""
    if isinstance(desired, dict):
        if not isinstance(live, dict):
            return not desired and live is None
        if name in _QUANTITY_MAPS:
            return all(_same_quantity(live.get(key), value) for key, value in desired.items())
        return all(contains(live.get(key), value, key) for key, value in desired.items())
    if isinstance(desired, list | tuple):
        return _contains_list(live, desired, name)
    return _same_quantity(live, desired) if name in _QUANTITIES else _same(live, desired)


def _same(live: Any, desired: Any) -> bool:
    if live is None:
        # The API server leaves out what is empty.
        return desired in (None, "", False)
    return bool(live == desired) and isinstance(live, bool) == isinstance(desired, bool)


def _contains_list(live: Any, desired: Sequence[Any], name: str) -> bool:
    if not isinstance(live, list | tuple):
        return not desired and live is None
    keys = _KEYS.get(name)
    if keys is None:
        return len(live) == len(desired) and all(
            contains(there, wanted) for there, wanted in zip(live, desired, strict=True)
        )
    found = {_identity(element, keys): element for element in live}
    return all(contains(found.get(_identity(element, keys)), element) for element in desired)


def _identity(element: Mapping[str, Any], keys: tuple[str, ...]) -> tuple[Any, ...]:
    return tuple(element.get(key, _KEY_DEFAULTS.get(key)) for key in keys)


def _same_quantity(live: Any, desired: Any) -> bool:
    return bool(live == desired) or (live is not None and _number(live) == _number(desired))


def _number(value: Any) -> Decimal | str:
    try:
        return quantity(str(value))
    except ValueError:
        return str(value)
