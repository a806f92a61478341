"""`topologySpread`, `shmSize` and `placement`: what the API server would refuse in a pod."""

from collections.abc import Iterator
from typing import Final

from pd_operator.api.deployment import PDDeployment
from pd_operator.api.tier import TierSpec
from pd_operator.api.values import quantity
from pd_operator.checks.names import is_qualified_name
from pd_operator.checks.problem import Problem
from pd_operator.checks.sizes import MAX, is_whole

_KEY: Final = "must be a label key: name or domain/name, the name at most 63 characters"


def scheduling_problems(deployment: PDDeployment) -> Iterator[Problem]:
    """Keys that no node can have, rules that are there twice, sizes that cannot be."""
    spec = deployment.spec
    near = spec.placement.near
    if near and not is_qualified_name(near.topology_key):
        field = "spec.placement.near.topologyKey"
        yield Problem("InvalidPlacement", field, f"{field} is {near.topology_key!r}; it {_KEY}")
    for path, tier in (("spec.prefill", spec.prefill), ("spec.decode", spec.decode)):
        yield from _spread(path, tier)
        yield from _shared_memory(path, tier)


def _spread(path: str, tier: TierSpec) -> Iterator[Problem]:
    seen: set[tuple[str, str]] = set()
    for index, rule in enumerate(tier.topology_spread):
        field = f"{path}.topologySpread[{index}]"
        if not is_qualified_name(rule.topology_key):
            inner = f"{field}.topologyKey"
            yield Problem("InvalidPlacement", inner, f"{inner} is {rule.topology_key!r}; it {_KEY}")
        identity = (rule.topology_key, rule.when_unsatisfiable)
        if identity in seen:
            yield Problem(
                "InvalidPlacement",
                field,
                f"{field} repeats topologyKey {rule.topology_key} with whenUnsatisfiable"
                f" {rule.when_unsatisfiable}; together they must be there once only",
            )
        seen.add(identity)


def _shared_memory(path: str, tier: TierSpec) -> Iterator[Problem]:
    if tier.shm_size is None:
        return
    field, size = f"{path}.shmSize", quantity(tier.shm_size)
    limit = tier.resources.limits.get("memory")
    if not (0 < size <= MAX and is_whole(size)):
        yield Problem(
            "InvalidSharedMemory",
            field,
            f"{field} is {tier.shm_size}; it must be whole bytes, above zero and below 8Ei",
        )
    elif limit is not None and size >= quantity(limit):
        yield Problem(
            "InvalidSharedMemory",
            field,
            f"{field} is {tier.shm_size}; it must be less than {path}.resources.limits[memory],"
            f" {limit}: shared memory counts towards it",
        )
