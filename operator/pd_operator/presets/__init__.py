"""Presets: parts of a spec under a name, laid under the spec of a PDDeployment; pure.

A preset is built in (a YAML file of this folder) or a ConfigMap of the PDDeployment's namespace
with the label `pd-operator.io/preset=true` and the key `spec.yaml`. They are laid over one another
in the listed order, the spec itself last: maps key by key, lists as a whole; null removes a key.
"""

import copy
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Final

import yaml

from pd_operator.build.hashing import short_hash
from pd_shared.labels import GROUP

LABEL: Final = f"{GROUP}/preset"
"""On ConfigMaps that are presets, value `true`: no other ConfigMap is ever read as one."""
KEY: Final = "spec.yaml"
"""The key of such a ConfigMap that holds the part of a spec."""
MAX_LENGTH: Final = 65536
"""Characters of one preset."""
FIELD: Final = "presets"
_HASH: Final = 16

Spec = dict[str, Any]


class PresetError(ValueError):
    """A preset is missing or no part of a spec; `reason` is the condition's."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True)
class Merged:
    """A spec with its presets laid under it."""

    spec: Spec
    hash: str
    """16 letters that stand for the merged spec."""
    live: bool
    """Whether a preset is a ConfigMap, which may change at any time."""


@cache
def built_in() -> Mapping[str, str]:
    """Text of the presets that the operator brings along, by name."""
    found = {
        entry.name.removesuffix(".yaml"): entry.read_text("utf-8")
        for entry in files(__name__).iterdir()
        if entry.name.endswith(".yaml")
    }
    return dict(sorted(found.items()))


def listed(spec: Any) -> tuple[str, ...]:
    """Names in `spec.presets` of a spec as read; what is no list of texts names none."""
    names = spec.get(FIELD) if isinstance(spec, dict) else None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        return ()
    return tuple(names)


def outside(spec: Any) -> tuple[str, ...]:
    """Those of them that are not built in: ConfigMaps to be read."""
    return tuple(dict.fromkeys(name for name in listed(spec) if name not in built_in()))


def of_config_map(manifest: Mapping[str, Any]) -> str | None:
    """A preset's text; None where the ConfigMap is none."""
    if (manifest["metadata"].get("labels") or {}).get(LABEL) != "true":
        return None
    return str((manifest.get("data") or {}).get(KEY, ""))


def merge(spec: Spec, given: Mapping[str, str]) -> Merged:
    """The spec with its presets; `given` has the texts of those that are not built in."""
    result: Spec = {}
    for name in listed(spec):
        text = built_in().get(name, given.get(name))
        if text is None:
            raise PresetError(
                "PresetNotFound",
                f"spec.presets: {name!r} is neither built in ({', '.join(built_in())}) nor a"
                f" ConfigMap in this namespace with the label {LABEL}=true and the key {KEY}",
            )
        result = laid(result, _part(name, text))
    result = laid(result, spec)
    whole = {key: value for key, value in result.items() if key != FIELD}
    return Merged(result, short_hash(whole, _HASH), live=bool(outside(spec)))


def laid(under: Spec, over: Mapping[str, Any]) -> Spec:
    """`over` laid over `under`."""
    result = copy.deepcopy(under)
    for key, value in over.items():
        known = result.get(key)
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            result[key] = laid(known if isinstance(known, dict) else {}, value)
        else:
            result[key] = copy.deepcopy(value)
    return result


def _part(name: str, text: str) -> Spec:
    if len(text) > MAX_LENGTH:
        raise _invalid(name, f"has {len(text)} characters; at most {MAX_LENGTH} are allowed")
    try:
        # Aliases of aliases make a short text huge.
        if any(isinstance(token, yaml.AliasToken) for token in yaml.scan(text)):
            raise _invalid(name, "must not use YAML aliases")
        part = yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise _invalid(name, f"is no YAML: {' '.join(str(error).split())}") from error
    if not isinstance(part, dict) or not all(isinstance(key, str) for key in part):
        raise _invalid(name, f"{KEY} must be a map of fields of spec")
    if FIELD in part:
        raise _invalid(name, f"must not have {FIELD}: presets do not nest")
    try:
        json.dumps(part, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise _invalid(name, f"has a value that no field takes: {error}") from error
    return part


def _invalid(name: str, what: str) -> PresetError:
    return PresetError("PresetInvalid", f"spec.presets: {name!r} {what}")
