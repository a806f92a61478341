"""Typed options of the engine: one flag of `vllm serve` each."""

from collections.abc import Iterator, Mapping

from pydantic.alias_generators import to_snake

from pd_operator.api.base import ApiModel
from pd_operator.api.options import ENGINE_FLAGS, TIER_FLAGS
from pd_operator.build.parts.part import Part, Tier


def part(tier: Tier) -> Part:
    """Only the options that are given: vLLM has defaults of its own."""
    agreed = [flag for _, flag in typed("", tier.deployment.spec.engine, ENGINE_FLAGS)]
    own = [flag for _, flag in typed("", tier.spec, TIER_FLAGS)]
    return Part(args=(*agreed, *own), pairing={"options": agreed})


def typed(
    path: str, model: ApiModel, table: Mapping[str, tuple[str, ...]]
) -> Iterator[tuple[str, str]]:
    """Field and argument of each option of `model`, which is at `path`, that is given.

    `table` is ENGINE_FLAGS or TIER_FLAGS; fields that are more than a value are left out.
    """
    for field, (flag, *others) in table.items():
        value = getattr(model, to_snake(field))
        where = f"{path}.{field}"
        if value is None or isinstance(value, ApiModel):
            continue
        if isinstance(value, bool):
            yield where, flag if value else others[0]
        elif isinstance(value, float):
            yield where, f"{flag}={value:g}"
        else:
            yield where, f"{flag}={value}"
