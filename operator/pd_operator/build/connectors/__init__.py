"""vLLM's KV connectors, a module each: what engines need to exchange KV by one of them.

A new connector is a module with a `BUILDER`, a value of `api.kv_transfer.Connector` and a line in
`BUILDERS`.
"""

from collections.abc import Mapping
from typing import Final

from pd_operator.api.kv_transfer import Connector
from pd_operator.build.connectors import lmcache, lmcache_mp, mooncake, mooncake_store, multi, nixl
from pd_operator.build.connectors.builder import Builder

__all__ = ["BUILDERS", "Builder"]

BUILDERS: Final[Mapping[Connector, Builder]] = {
    Connector.MOONCAKE: mooncake.BUILDER,
    Connector.NIXL: nixl.BUILDER,
    Connector.MOONCAKE_STORE: mooncake_store.BUILDER,
    Connector.LMCACHE: lmcache.BUILDER,
    Connector.LMCACHE_MP: lmcache_mp.BUILDER,
    Connector.MULTI: multi.BUILDER,
}
