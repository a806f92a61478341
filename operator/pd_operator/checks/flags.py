"""Flags of `vllm serve` as the engines get them: from typed fields and lists of arguments.

vLLM's parser takes `_` for `-`, `--flag=value`, `--flag.key=value` for one key of a JSON value, any
beginning of a long flag that is unique, `--no-flag`, and a one-letter flag's value right behind it.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pd_operator.api.deployment import PDDeploymentSpec
from pd_operator.api.options import ENGINE_FLAGS, TIER_FLAGS
from pd_operator.build.parts.options import typed
from pd_operator.build.parts.speculative import speculative_argument

TIERS: Final = ("prefill", "decode")

_FLAG: Final = re.compile(r"--?[A-Za-z][^=.\s]*")


@dataclass(frozen=True)
class Given:
    """One place of a spec that sets a flag."""

    field: str
    """Its path: a typed field, or an element of a list of arguments."""
    name: str
    """The flag as it is written there, with `-` for `_`."""
    key: str
    """The key of a JSON value that is set alone; empty for the whole value."""
    value: str
    """Empty for a flag without a value."""


def flag_name(given: str) -> str | None:
    """The flag that an argument starts with, with `-` for `_`; None where it is no flag."""
    match = _FLAG.match(given)
    return match[0].replace("_", "-") if match else None


def sets(name: str, flag: str) -> bool:
    """Whether vLLM may take `name`, as `flag_name` gives it, for `flag`."""
    if name.startswith("--") != flag.startswith("--"):
        return False
    return flag.startswith(name) or (len(flag) == 2 and name.startswith(flag))


def typed_arguments(spec: PDDeploymentSpec, tier: str) -> Iterator[tuple[str, str]]:
    """The typed options of a tier, prefill or decode: path of the field, and its argument."""
    yield from typed("spec.engine", spec.engine, ENGINE_FLAGS)
    if spec.engine.speculative:
        yield "spec.engine.speculative", speculative_argument(spec.engine.speculative)
    yield from typed(f"spec.{tier}", getattr(spec, tier), TIER_FLAGS)


def given(spec: PDDeploymentSpec, *flags: str, tiers: Sequence[str] = TIERS) -> tuple[Given, ...]:
    """Where one of the flags is set for these tiers, in the order of the command line."""
    found = (one for tier in tiers for one in _tier(spec, tier, flags))
    return tuple(dict.fromkeys(found))


def json_value(spec: PDDeploymentSpec, *flags: str) -> dict[str, Any]:
    """The flags' JSON objects as one, single keys among them; empty where there is none."""
    result: dict[str, Any] = {}
    for one in given(spec, *flags):
        if one.key:
            result[one.key] = one.value
            continue
        try:
            whole = json.loads(one.value)
        except ValueError:
            continue
        if isinstance(whole, dict):
            result |= whole
    return result


def _tier(spec: PDDeploymentSpec, tier: str, flags: Sequence[str]) -> Iterator[Given]:
    for field, text in typed_arguments(spec, tier):
        yield from _found((text,), (field,), flags)
    for field, arguments in (
        ("spec.engine.args", spec.engine.args),
        (f"spec.{tier}.args", getattr(spec, tier).args),
    ):
        fields = [f"{field}[{index}]" for index in range(len(arguments))]
        yield from _found(arguments, fields, flags)


def _found(
    arguments: Sequence[str], fields: Sequence[str], flags: Sequence[str]
) -> Iterator[Given]:
    for index, (argument, field) in enumerate(zip(arguments, fields, strict=True)):
        name = flag_name(argument)
        if name is None or not any(sets(name, flag) for flag in flags):
            continue
        rest = argument[len(name) :]
        if rest.startswith("="):
            key, value = "", rest[1:]
        elif rest.startswith("."):
            key, _, value = rest[1:].partition("=")
        else:
            after = arguments[index + 1] if index + 1 < len(arguments) else ""
            key, value = "", "" if after.startswith("-") else after
        yield Given(field, name, key, value)
