"""`spec.mooncake.store`: the engine's version and memory that it needs."""

import re
from collections.abc import Iterator
from typing import Final

from pd_operator.api.deployment import PDDeployment
from pd_operator.api.values import quantity
from pd_operator.checks.problem import Problem
from pd_operator.checks.sizes import MAX, is_whole

FIRST_VERSION: Final = (0, 33, 0)
"""Earlier ones die at the first transfer with two connectors, see vLLM #43828."""

PATCHED: Final = "pd"
"""Part of a local version label that says: this build has the cure."""

_VERSION: Final = re.compile(r"([0-9]+)\.([0-9]+)\.([0-9]+)(?:\+(.*))?")


def store_problems(deployment: PDDeployment) -> Iterator[Problem]:
    """Problems of a store that is on."""
    spec = deployment.spec
    store = spec.mooncake.store
    if not store.enabled:
        return
    if not _works(spec.engine.version):
        yield Problem(
            "StoreNeedsVersion",
            "spec.engine.version",
            f"spec.engine.version is {spec.engine.version or 'not set'}; with"
            " spec.mooncake.store.enabled it must say that the image has vLLM 0.33.0 or later"
            f" (or a build with the cure, labelled +{PATCHED}): earlier ones end at the first"
            " transfer",
        )
    sizes = {"segmentSize": store.segment_size, "localBufferSize": store.local_buffer_size}
    for name, size in sizes.items():
        if not (0 < quantity(size) <= MAX and is_whole(quantity(size))):
            field = f"spec.mooncake.store.{name}"
            yield Problem(
                "InvalidStoreSize",
                field,
                f"{field} is {size}; it must be whole bytes, above zero and below 8Ei",
            )
    needed = sum(quantity(size) for size in sizes.values())
    for tier, placed in (("spec.prefill", spec.prefill), ("spec.decode", spec.decode)):
        limit = placed.resources.limits.get("memory")
        ranks = placed.parallelism.ranks_per_pod
        if limit is not None and quantity(limit) <= needed * ranks:
            field = f"{tier}.resources.limits[memory]"
            yield Problem(
                "StoreNeedsMemory",
                field,
                f"{field} is {limit}; it must be more than segmentSize + localBufferSize of"
                f" spec.mooncake.store for each rank: {ranks} x ({store.segment_size} +"
                f" {store.local_buffer_size})",
            )


def _works(version: str | None) -> bool:
    match = _VERSION.fullmatch(version or "")
    if match is None:
        return False
    number = tuple(int(part) for part in match.groups()[:3])
    return number >= FIRST_VERSION or PATCHED in (match[4] or "").split(".")
