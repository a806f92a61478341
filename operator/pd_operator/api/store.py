"""`spec.mooncake.store`: Mooncake Store, a KV cache shared by all engines of the deployment."""

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from pd_operator.api.base import ApiModel, DnsSubdomain, Rule
from pd_operator.api.tier import LabelKey, LabelValue, Toleration, map_keys
from pd_operator.api.values import Duration, Quantity

Percent = Annotated[int, Field(ge=1, le=100)]


class StoreMode(StrEnum):
    """Whose memory the store is."""

    EMBEDDED = "Embedded"
    STANDALONE = "Standalone"


class AllocationStrategy(StrEnum):
    """Where the master puts a new object (`--allocation_strategy`)."""

    RANDOM = "Random"
    FREE_RATIO_FIRST = "FreeRatioFirst"
    LOCAL_FIRST = "LocalFirst"


class OffloadSpec(ApiModel):
    """Objects that memory has no room for go to disks of the pool's pods."""

    size: Quantity
    """Disk of each pod of the pool. Becomes: the volume's size, and
    MOONCAKE_OFFLOAD_TOTAL_SIZE_LIMIT_BYTES (90 percent of it)."""
    path: Annotated[str, Field(max_length=256, pattern=r"^/[A-Za-z0-9_-]+(/[A-Za-z0-9_-]+)*$")] = (
        "/var/lib/mooncake"
    )
    """Where the volume is mounted. Default: /var/lib/mooncake. Becomes: the mount, and
    MOONCAKE_OFFLOAD_FILE_STORAGE_PATH."""
    storage_class: DnsSubdomain | None = None
    """StorageClass of a volume that lives as long as its pod. Default: the node's own disk, as an
    emptyDir. Becomes: an ephemeral volume."""


class PoolSpec(ApiModel):
    """Pods that give their memory to the store and run nothing else."""

    replicas: Annotated[int, Field(ge=1, le=256)] = 1
    """How many. Each gives `segmentSize`. Default: 1. Becomes: `replicas` of `<name>-store`."""
    node_selector: Annotated[dict[LabelKey, LabelValue], Field(max_length=32)] = {}
    """Labels of the nodes that they run on. Becomes: `nodeSelector` of the pods."""
    tolerations: Annotated[tuple[Toleration, ...], Field(max_length=32)] = ()
    """Taints of nodes that they may run on all the same. Becomes: `tolerations` of the pods."""
    offload: OffloadSpec | None = None
    """Objects that memory has no room for go to disks. Default: they are dropped. Becomes:
    `--enable_offload` of `mooncake_client` and `mooncake_master`."""

    cel: ClassVar[tuple[Rule, ...]] = (
        map_keys("nodeSelector", "of labels like kubernetes.io/arch"),
    )


class StoreSpec(ApiModel):
    """Mooncake Store: a KV cache shared by all engines of the deployment."""

    enabled: bool | None = None
    """Runs a Mooncake master with its metadata service and connects the engines to it. Default:
    true with kvTransfer.connector MooncakeStore, LMCache or Multi, else false. Becomes: the
    Deployment `<name>-mooncake`, and MOONCAKE_CONFIG_PATH."""
    mode: StoreMode = StoreMode.EMBEDDED
    """`Embedded`: the engines' own memory. `Standalone`: the memory of a pool of pods, which
    outlives the engines. Default: Embedded. Becomes: `mode` and `global_segment_size` in the file
    of MOONCAKE_CONFIG_PATH."""
    segment_size: Quantity = "4Gi"
    """Memory that each engine rank gives to the store; with mode Standalone each pod of the pool.
    Default: 4Gi. Becomes: `global_segment_size` of the store's configuration, or of
    `mooncake_client`."""
    local_buffer_size: Quantity = "1Gi"
    """Transfer buffer of each engine rank. Default: 1Gi. Becomes: `local_buffer_size`."""
    pool: PoolSpec | None = None
    """The pods of mode Standalone. Default: one pod without disks. Becomes: `<name>-store`."""
    lease_ttl: Annotated[Duration | None, Field(alias="leaseTTL")] = None
    """How long an object that was just read is kept from eviction. Default: 10s, the master's.
    Becomes: `--default_kv_lease_ttl`."""
    soft_pin_ttl: Annotated[Duration | None, Field(alias="softPinTTL")] = None
    """How long an object that was pinned softly is evicted last. Default: 30m, the master's.
    Becomes: `--default_kv_soft_pin_ttl`."""
    eviction_high_watermark: Percent | None = None
    """Percent of the memory in use from which on the master evicts. Default: 90, the master's.
    Becomes: `--eviction_high_watermark_ratio`."""
    eviction_ratio: Percent | None = None
    """Percent of the objects that one eviction removes. Default: 5, the master's. Becomes:
    `--eviction_ratio`."""
    allocation_strategy: AllocationStrategy | None = None
    """Where the master puts a new object. Default: Random, the master's. Becomes:
    `--allocation_strategy`."""

    cel: ClassVar[tuple[Rule, ...]] = (
        *(
            Rule(
                f"!has(self.{name}) || type(self.{name}) == string || self.{name} > 0",
                f"{name} must be more than zero",
            )
            for name in ("segmentSize", "localBufferSize")
        ),
        Rule(
            "!has(self.pool) || (has(self.mode) && self.mode == 'Standalone')",
            "pool is only allowed with mode Standalone",
        ),
    )
