"""Engine pods are put together from parts: a feature each, one module each.

A new feature is a module with `def part(tier: Tier) -> Part` and a line in `_PARTS`.
"""

from collections.abc import Callable
from typing import Final

from pd_operator.build.parts import (
    adapters,
    cpu,
    gang,
    kv_transfer,
    launcher,
    model,
    options,
    parallelism,
    placement,
    preflight,
    rdma,
    scheduling,
    server,
    speculative,
    store,
    user,
)
from pd_operator.build.parts.part import Part, Tier, combined

__all__ = ["Part", "Tier", "operator_parts", "tier_part"]

_PARTS: Final[tuple[Callable[[Tier], Part], ...]] = (
    model.part,  # its first argument is what is served
    server.part,
    launcher.part,
    parallelism.part,
    options.part,
    adapters.part,
    speculative.part,
    kv_transfer.part,
    rdma.part,
    preflight.part,
    store.part,
    cpu.part,
    placement.part,
    gang.part,
    scheduling.part,
    user.part,  # the user's arguments and variables come last
)


def tier_part(tier: Tier) -> Part:
    """All parts of a tier as one."""
    return combined(part(tier) for part in _PARTS)


def operator_parts(tier: Tier) -> tuple[Part, ...]:
    """The parts of a tier one by one, without what the user adds by hand."""
    return tuple(part(tier) for part in _PARTS if part is not user.part)
