"""What the preflight tells the launcher: a small file in a folder that both containers have."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

NAMES = frozenset({"MC_FORCE_TCP", "MC_FORCE_HCA", "MC_TE_FILTERS"})
"""The only variables that the file can change."""


def content(fell_back: bool, devices: tuple[str, ...]) -> str:
    """The file's text."""
    what: dict[str, Any] = {}
    if fell_back:
        what = {"set": {"MC_FORCE_TCP": "1"}, "unset": ["MC_FORCE_HCA", "MC_TE_FILTERS"]}
    elif devices:
        what = {"default": {"MC_TE_FILTERS": ",".join(devices)}}
    return json.dumps(what)


def applied(environment: Mapping[str, str], text: str) -> dict[str, str]:
    """The environment with the file's changes; what cannot be understood changes nothing."""
    result = dict(environment)
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return result
    if not isinstance(found, dict):
        return result
    for name, value in _texts(found.get("default")).items():
        result.setdefault(name, value)
    unset = found.get("unset")
    for name in unset if isinstance(unset, list) else ():
        if isinstance(name, str) and name in NAMES:
            result.pop(name, None)
    result.update(_texts(found.get("set")))
    return result


def _texts(found: object) -> dict[str, str]:
    if not isinstance(found, dict):
        return {}
    return {
        name: value
        for name, value in found.items()
        if name in NAMES and isinstance(value, str) and "\0" not in value
    }
