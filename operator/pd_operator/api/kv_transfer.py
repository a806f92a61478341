"""`spec.kvTransfer`: how KV travels from prefiller to decoder."""

from enum import StrEnum

from pd_operator.api.base import ApiModel


class Connector(StrEnum):
    """How the decoder gets the prompt's KV from the prefiller."""

    MOONCAKE = "Mooncake"


class Protocol(StrEnum):
    """What the KV travels over."""

    RDMA = "rdma"
    TCP = "tcp"


class KVTransferSpec(ApiModel):
    """How KV travels from prefiller to decoder."""

    connector: Connector = Connector.MOONCAKE
    """`Mooncake`: vLLM's MooncakeConnector, prefiller to decoder without a store.

    Default: `Mooncake`. Becomes: `kv_connector` of `--kv-transfer-config`.
    """
    protocol: Protocol = Protocol.RDMA
    """`rdma`, or `tcp` where it is asked for by name: never a silent fallback. Default: `rdma`.

    Becomes: `mooncake_protocol` of `--kv-transfer-config`, `MC_FORCE_HCA` or `MC_FORCE_TCP`.
    """
