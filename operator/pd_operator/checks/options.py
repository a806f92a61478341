"""Typed options of the engine, and the same flags in `spec.engine.args`."""

import re
from collections.abc import Iterator
from typing import Final

from pydantic.alias_generators import to_snake

from pd_operator.api.base import ApiModel
from pd_operator.api.deployment import PDDeployment
from pd_operator.api.options import ENGINE_FLAGS, TIER_FLAGS
from pd_operator.checks.problem import Problem

_FLAG: Final = re.compile(r"--?[A-Za-z][^=.]*")


def option_problems(deployment: PDDeployment) -> Iterator[Problem]:
    """Arguments that say what a typed field says already: one of both would be without effect."""
    spec = deployment.spec
    given = {
        path: flags
        for where, model, table in (
            ("spec.engine", spec.engine, ENGINE_FLAGS),
            ("spec.prefill", spec.prefill, TIER_FLAGS),
            ("spec.decode", spec.decode, TIER_FLAGS),
        )
        for path, flags in _given(where, model, table)
    }
    for index, argument in enumerate(spec.engine.args):
        field = f"spec.engine.args[{index}]"
        for path, flags in given.items():
            flag = _said(argument, flags)
            if flag:
                yield Problem(
                    "OptionGivenTwice",
                    field,
                    f"{field} must not set {flag}: {path} sets it; remove one of both",
                )
                break


def _given(
    where: str, model: ApiModel, table: dict[str, tuple[str, ...]]
) -> Iterator[tuple[str, tuple[str, ...]]]:
    for field, flags in table.items():
        if getattr(model, to_snake(field)) is not None:
            yield f"{where}.{field}", flags


def _said(argument: str, flags: tuple[str, ...]) -> str | None:
    match = _FLAG.match(argument)
    if match is None:
        return None
    name = match[0].replace("_", "-")
    for flag in flags:
        # vLLM takes any beginning of a long flag, and the value right behind a letter.
        long = flag.startswith("--") and name.startswith("--") and flag.startswith(name)
        letter = len(flag) == 2 and name.startswith(flag)
        if long or letter or name == flag:
            return flag
    return None
