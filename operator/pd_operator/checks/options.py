"""Typed options of the engine, and the same flags among the arguments."""

from collections.abc import Iterator, Mapping, Sequence

from pydantic.alias_generators import to_snake

from pd_operator.api.base import ApiModel
from pd_operator.api.deployment import PDDeployment
from pd_operator.api.options import ENGINE_FLAGS, TIER_FLAGS
from pd_operator.checks.flags import flag_name, sets
from pd_operator.checks.problem import Problem

_Typed = tuple[tuple[str, tuple[str, ...]], ...]
"""Paths of fields that are given, and the flags that say the same."""


def option_problems(deployment: PDDeployment) -> Iterator[Problem]:
    """Arguments that say what a typed field says already: one of both would be without effect.

    `engine.args` reach both tiers, so they meet the fields of all; those of a tier meet its own
    and the engine's.
    """
    spec = deployment.spec
    engine = _given("spec.engine", spec.engine, ENGINE_FLAGS)
    prefill = _given("spec.prefill", spec.prefill, TIER_FLAGS)
    decode = _given("spec.decode", spec.decode, TIER_FLAGS)
    yield from _twice("spec.engine.args", spec.engine.args, engine + prefill + decode)
    yield from _twice("spec.prefill.args", spec.prefill.args, engine + prefill)
    yield from _twice("spec.decode.args", spec.decode.args, engine + decode)


def _twice(path: str, arguments: Sequence[str], typed: _Typed) -> Iterator[Problem]:
    for index, argument in enumerate(arguments):
        name = flag_name(argument)
        both = [
            (there, flag)
            for there, flags in typed
            for flag in flags
            if name is not None and sets(name, flag)
        ]
        if both:
            there, flag = next((one for one in both if one[1] == name), both[0])
            field = f"{path}[{index}]"
            yield Problem(
                "OptionGivenTwice",
                field,
                f"{field} must not set {flag}: {there} sets it; remove one of both",
            )


def _given(where: str, model: ApiModel, table: Mapping[str, tuple[str, ...]]) -> _Typed:
    return tuple(
        (f"{where}.{field}", flags)
        for field, flags in table.items()
        if getattr(model, to_snake(field)) is not None
    )
