"""Values of flags among `spec.engine.args`, in all spellings that vLLM's parser takes."""

import json
from collections.abc import Sequence
from typing import Any

from pd_operator.api.deployment import PDDeploymentSpec


def given(spec: PDDeploymentSpec, flag: str) -> bool:
    """Whether the flag is among the arguments of both tiers."""
    return _find(spec.engine.args, flag) is not None


def value(spec: PDDeploymentSpec, flag: str) -> str | None:
    """The flag's value; None where it is not given, "" where it has none."""
    return _find(spec.engine.args, flag)


def json_value(spec: PDDeploymentSpec, flag: str) -> dict[str, Any]:
    """The flag's JSON object; empty where it is not given or is none."""
    try:
        found = json.loads(value(spec, flag) or "{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _find(arguments: Sequence[str], flag: str) -> str | None:
    for index, argument in enumerate(arguments):
        name, equals, text = argument.partition("=")
        if name.replace("_", "-") != flag:
            continue
        if equals:
            return text
        after = arguments[index + 1] if index + 1 < len(arguments) else ""
        return "" if after.startswith("-") else after
    return None
