"""`spec.mooncake` and `spec.lmcache`: ports, and memory that they need."""

from collections.abc import Iterator
from decimal import Decimal
from typing import Final

from pd_operator.api.deployment import PDDeployment
from pd_operator.api.kv_transfer import Connector
from pd_operator.api.lmcache import LMCacheServerSpec, LMCacheSpec, LMCacheTierSpec
from pd_operator.api.store import StoreMode
from pd_operator.api.values import quantity
from pd_operator.checks.problem import Problem
from pd_operator.checks.sizes import MAX, is_whole
from pd_shared import ports

_STORE: Final = "spec.mooncake.store"


def store_problems(deployment: PDDeployment) -> Iterator[Problem]:
    """Problems of shared KV: a Mooncake store, LMCache."""
    spec = deployment.spec
    yield from _ports(deployment)
    if spec.mooncake.store.pool and spec.mooncake.store.mode is not StoreMode.STANDALONE:
        yield Problem(
            "FieldNotUsed",
            f"{_STORE}.pool",
            f"{_STORE}.pool is only allowed with {_STORE}.mode Standalone",
        )
    bad = tuple(_sizes(deployment))
    yield from bad
    if not bad:
        yield from _memory(deployment)


def _ports(deployment: PDDeployment) -> Iterator[Problem]:
    master = deployment.spec.mooncake.master
    if len({master.port, master.metadata_port, ports.MOONCAKE_ADMIN}) < 3:
        field = "spec.mooncake.master.port"
        yield Problem(
            "PortTaken",
            field,
            f"{field} ({master.port}) and spec.mooncake.master.metadataPort"
            f" ({master.metadata_port}) must differ from one another and from"
            f" {ports.MOONCAKE_ADMIN}, the admin port",
        )


def _sizes(deployment: PDDeployment) -> Iterator[Problem]:
    spec = deployment.spec
    store = spec.mooncake.store
    sizes: dict[str, str] = {}
    if spec.uses_store:
        sizes |= {
            f"{_STORE}.segmentSize": store.segment_size,
            f"{_STORE}.localBufferSize": store.local_buffer_size,
        }
        if store.pool and store.pool.offload:
            sizes[f"{_STORE}.pool.offload.size"] = store.pool.offload.size
    if spec.connector is Connector.LMCACHE:
        for name, tier in _lmcache(deployment).items():
            sizes[f"spec.lmcache.{name}.localCpuSize"] = tier.local_cpu_size
    if spec.connector is Connector.LMCACHE_MP:
        server = (spec.lmcache or LMCacheSpec()).server or LMCacheServerSpec()
        sizes["spec.lmcache.server.memory"] = server.memory
    for field, size in sizes.items():
        if not (0 < quantity(size) <= MAX - _SPARE and is_whole(quantity(size))):
            yield Problem(
                "InvalidStoreSize",
                field,
                f"{field} is {size}; it must be whole bytes, above zero and below 8Ei",
            )


_SPARE: Final = Decimal(2**40)
"""What the operator may add to a size."""


def _memory(deployment: PDDeployment) -> Iterator[Problem]:
    spec = deployment.spec
    if not spec.uses_store:
        return
    store, lmcache = spec.mooncake.store, _lmcache(deployment)
    for name, placed in (("prefill", spec.prefill), ("decode", spec.decode)):
        parts = {"localBufferSize": store.local_buffer_size}
        if store.mode is StoreMode.EMBEDDED:
            parts = {"segmentSize": store.segment_size, **parts}
        of = _STORE
        if spec.connector is Connector.LMCACHE:
            parts["localCpuSize"] = lmcache[name].local_cpu_size
            of = f"{_STORE} and spec.lmcache.{name}"
        limit = placed.resources.limits.get("memory")
        ranks = placed.parallelism.ranks_per_pod
        needed = sum(quantity(size) for size in parts.values()) * ranks
        if limit is not None and quantity(limit) <= needed:
            field = f"spec.{name}.resources.limits[memory]"
            yield Problem(
                "StoreNeedsMemory",
                field,
                f"{field} is {limit}; it must be more than {' + '.join(parts)} of {of} for each"
                f" rank: {ranks} x ({' + '.join(parts.values())})",
            )


def _lmcache(deployment: PDDeployment) -> dict[str, LMCacheTierSpec]:
    lmcache = deployment.spec.lmcache or LMCacheSpec()
    return {
        "prefill": lmcache.prefill or LMCacheTierSpec(),
        "decode": lmcache.decode or LMCacheTierSpec(),
    }
