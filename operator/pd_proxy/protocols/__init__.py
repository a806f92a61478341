"""How the KV cache gets from a prefiller to a decoder: one module for each kind of connector."""

from collections.abc import Mapping

from pd_proxy.protocols.base import KvProtocol
from pd_proxy.protocols.colocated import Colocated
from pd_proxy.protocols.mooncake import Mooncake
from pd_proxy.protocols.nixl import Nixl
from pd_proxy.protocols.store import MooncakeStore, Store
from pd_shared import labels

Protocols = Mapping[str, KvProtocol]
"""By the value of the pods' annotation `labels.CONNECTOR`."""


def protocols() -> Protocols:
    """All that this proxy speaks, for one process. Make it within a running loop."""
    mooncake = Mooncake()
    store = Store()
    return {
        labels.MOONCAKE_CONNECTOR: mooncake,
        # Its first connector is Mooncake's; the store behind it needs nothing of the proxy.
        labels.MULTI: mooncake,
        labels.NIXL: Nixl(),
        labels.MOONCAKE_STORE: MooncakeStore(),
        labels.LMCACHE: store,
        labels.LMCACHE_MP: store,
        labels.COLOCATED: Colocated(),
    }
