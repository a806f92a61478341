"""`spec.kvTransfer`: how KV travels from prefiller to decoder."""

from enum import StrEnum
from typing import Annotated, ClassVar, Final

from pydantic import Field

from pd_operator.api.base import ApiModel, Rule
from pd_operator.api.values import Duration


class Connector(StrEnum):
    """How the decoder gets the prompt's KV from the prefiller: a KV connector of vLLM."""

    MOONCAKE = "Mooncake"
    NIXL = "Nixl"
    MOONCAKE_STORE = "MooncakeStore"
    LMCACHE = "LMCache"
    LMCACHE_MP = "LMCacheMP"
    MULTI = "Multi"


NEED_STORE: Final = frozenset({Connector.MOONCAKE_STORE, Connector.LMCACHE, Connector.MULTI})
"""Connectors whose KV lies in Mooncake Store."""

MAY_USE_STORE: Final = NEED_STORE | {Connector.MOONCAKE}
"""Connectors that can work with Mooncake Store."""

DIRECT: Final = frozenset({Connector.MOONCAKE, Connector.MULTI, Connector.NIXL})
"""Connectors that move KV from prefiller to decoder without a third process."""

OVER_MOONCAKE: Final = frozenset({Connector.MOONCAKE, Connector.MULTI})
"""Connectors whose prefillers run Mooncake's bootstrap server."""


class Protocol(StrEnum):
    """What the KV travels over."""

    RDMA = "rdma"
    TCP = "tcp"


class LoadFailurePolicy(StrEnum):
    """What a decoder does with a request whose KV did not come."""

    RECOMPUTE = "Recompute"
    FAIL = "Fail"


ABORT_SECONDS: Final = (10, 3600)
"""The shortest and the longest abortTimeout."""

_DIRECT: Final = "(!has(self.connector) || self.connector in ['Mooncake', 'Multi', 'Nixl'])"


class KVTransferSpec(ApiModel):
    """How KV travels from prefiller to decoder."""

    connector: Connector = Connector.MOONCAKE
    """`Mooncake`: from prefiller to decoder by Mooncake, without a store. `Nixl`: the same by
    NVIDIA's NIXL. `MooncakeStore`: the prefiller writes into Mooncake Store, the decoder reads.
    `LMCache`: the same through LMCache in the engines; GPUs only. `LMCacheMP`: through one LMCache
    server of the deployment, over TCP. `Multi`: Mooncake and MooncakeStore at once; Mooncake with
    the store on means the same. Default: Mooncake. Becomes: `kv_connector` of vLLM's
    `--kv-transfer-config`."""
    protocol: Protocol = Protocol.RDMA
    """`rdma`, or `tcp` where it is asked for by name: never a silent fallback. Default: `rdma`.

    Becomes: `mooncake_protocol` of `--kv-transfer-config`, `MC_FORCE_HCA` or `MC_FORCE_TCP`; with
    Nixl `UCX_TLS`.
    """
    symmetric: bool = False
    """Both tiers send and receive KV. Default: prefillers send, decoders receive. Becomes:
    `kv_role` kv_both instead of kv_producer and kv_consumer."""
    load_failure_policy: LoadFailurePolicy = LoadFailurePolicy.RECOMPUTE
    """Where KV does not come: `Recompute` it on the decoder (a right answer, late), or `Fail` the
    request. Default: Recompute. Becomes: `kv_load_failure_policy`."""
    abort_timeout: Duration | None = None
    """How long a prefiller keeps KV that no decoder fetches: 10s to 1h, in whole seconds; with
    connector Mooncake, Multi or Nixl. With Nixl, decoders that wait renew it. Default: 2m; 30s with
    Nixl. Becomes: VLLM_MOONCAKE_ABORT_REQUEST_TIMEOUT; with Nixl `kv_lease_duration`."""
    workers: Annotated[int, Field(ge=1, le=128)] | None = None
    """Threads of an engine rank that move KV; with connector Mooncake, Multi or Nixl. Default: 10;
    2 where engine.device is cpu; 4 with Nixl. Becomes: `num_workers`; with Nixl `num_threads`."""

    cel: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(self.symmetric) || !self.symmetric || !has(self.connector)"
            " || self.connector != 'Nixl'",
            "symmetric is not allowed with connector Nixl: vLLM drops it there",
        ),
        Rule(
            f"!has(self.abortTimeout) || {_DIRECT}",
            "abortTimeout is only allowed with connector Mooncake, Multi or Nixl",
        ),
        Rule(
            f"!has(self.workers) || {_DIRECT}",
            "workers is only allowed with connector Mooncake, Multi or Nixl",
        ),
        Rule(
            "!has(self.connector) || self.connector != 'LMCacheMP'"
            " || (has(self.protocol) && self.protocol == 'tcp')",
            "protocol must be tcp with connector LMCacheMP: its server is reached over TCP alone",
        ),
    )
