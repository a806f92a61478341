"""`spec.rdma`: RDMA devices of engine pods, and how they are used."""

from enum import StrEnum
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from pd_operator.api.base import ApiModel, ResourceName, Rule
from pd_operator.api.values import Quantity


class MemoryRegistration(StrEnum):
    """How a device reaches the memory of a GPU."""

    PEERMEM = "Peermem"
    DMA_BUF = "DMABuf"


class LinkLayer(StrEnum):
    """What RDMA runs on."""

    INFINIBAND = "InfiniBand"
    ETHERNET = "Ethernet"


class Fallback(StrEnum):
    """What happens where RDMA cannot work."""

    NEVER = "Never"
    TCP = "TCP"


class PreflightSpec(ApiModel):
    """Checks in each engine pod, before the engine starts."""

    enabled: bool = True
    """Whether devices, ports, GIDs and the limit of locked memory are checked, and that the other
    tier's pods, where there are any, answer over TCP. Default: true.

    Becomes: the init container `rdma-preflight`, and the condition RDMAReady.
    """
    link_layer: LinkLayer | None = None
    """What the ports must run on. Default: either.

    Becomes: `--link-layer` of the preflight.
    """
    min_memlock: Quantity | None = None
    """Memory that a process must at least be able to lock. Default: no limit at all.

    Becomes: `--memlock-bytes` of the preflight.
    """


class RDMASpec(ApiModel):
    """RDMA devices of engine pods, from a Kubernetes device plugin.

    Source of the variables: Mooncake's transfer engine, and NCCL's and UCX's own.
    """

    resource: ResourceName = "rdma/hca_shared_devices_a"
    """Resource that the device plugin advertises. Default: `rdma/hca_shared_devices_a`.

    Becomes: a request and a limit of the container `engine`.
    """
    count: Annotated[int, Field(ge=1, le=64)] = 1
    """How many of the resource each engine pod asks for. Default: 1.

    Becomes: the number of that request and limit.
    """
    resources: Annotated[
        dict[ResourceName, Annotated[int, Field(ge=1, le=64)]], Field(max_length=8)
    ] = {}
    """Several resources and how many of each, as SR-IOV has one for each network; instead of
    resource and count.

    Becomes: requests and limits of the container `engine`.
    """
    devices: Annotated[
        tuple[Annotated[str, Field(min_length=1, max_length=32, pattern=r"^[A-Za-z0-9_]+$")], ...],
        Field(max_length=16),
    ] = ()
    """Devices that Mooncake uses, like `mlx5_0`. Default: all that the pod sees.

    Becomes: `device_name` of `--kv-transfer-config`, and `MC_TE_FILTERS`.
    """
    networks: Annotated[
        tuple[
            Annotated[
                str,
                Field(
                    min_length=1,
                    max_length=192,
                    pattern=r"^([a-z0-9][-a-z0-9]*/)?[a-z0-9][-a-z0-9.]*(@[A-Za-z0-9][-A-Za-z0-9_.]*)?$",
                ),
            ],
            ...,
        ],
        Field(max_length=16),
    ] = ()
    """NetworkAttachmentDefinitions of Multus, each `name`, `namespace/name` or `name@interface`.

    Becomes: the annotation `k8s.v1.cni.cncf.io/networks` of engine pods.
    """
    host_network: bool = False
    """Whether engine pods use the node's own network: no two of them on one node, old revisions
    and those of other PDDeployments included, since their ports are the same. Default: false.

    Becomes: `hostNetwork`, `dnsPolicy`, `hostPort`s and a required anti-affinity of engine pods.
    """
    gid_index: Annotated[int, Field(ge=0, le=255)] | None = None
    """Entry of the port's GID table, for RoCE mostly 3 (RoCE v2, IPv4). Default: found by each
    library.

    Becomes: `MC_GID_INDEX`, `NCCL_IB_GID_INDEX` and `UCX_IB_GID_INDEX`.
    """
    mtu: Literal[512, 1024, 2048, 4096] | None = None
    """Bytes of a packet on the wire, at most what the fabric has. Default: Mooncake's, 4096; with
    connector Nixl the best of the device.

    Becomes: `MC_MTU`; with connector Nixl `UCX_IB_PATH_MTU`.
    """
    traffic_class: Annotated[int, Field(ge=0, le=255)] | None = None
    """Traffic class of RoCE packets, which switches go by. Default: the driver's; with
    connector Nixl UCX's, 106 on RoCE v2.

    Becomes: `MC_IB_TC`; with connector Nixl `UCX_IB_TRAFFIC_CLASS`.
    """
    service_level: Annotated[int, Field(ge=0, le=15)] | None = None
    """Service level of InfiniBand packets. Default: the driver's.

    Becomes: `MC_IB_SL`; with connector Nixl `UCX_IB_SL`.
    """
    pkey_index: Annotated[int, Field(ge=0, le=65535)] | None = None
    """Entry of the port's table of partition keys. Not with connector Nixl: UCX takes the key
    itself (set `UCX_IB_PKEY` in engine.env). Default: 0.

    Becomes: `MC_PKEY_INDEX`.
    """
    memory_registration: MemoryRegistration | None = None
    """How a device reaches the memory of a GPU: by the module nvidia-peermem on the node, or by
    DMA-BUF, which needs none. Default: the library's own choice.

    Becomes: `WITH_NVIDIA_PEERMEM`: 1 or 0; with connector Nixl `UCX_CUDA_COPY_DMABUF`: no or yes.
    """

    fallback: Fallback = Fallback.NEVER
    """`Never`: where RDMA cannot work, engines do not start. `TCP`: KV then travels over TCP, and
    RDMAReady says so; only with connector Mooncake. Default: `Never`.

    Becomes: `--fallback` of the preflight, which sets `MC_FORCE_TCP` in place of `MC_FORCE_HCA`.
    """
    preflight: PreflightSpec = PreflightSpec()

    @property
    def requested(self) -> dict[str, int]:
        """Resources that each engine pod asks for, by name."""
        return dict(sorted(self.resources.items())) or {self.resource: self.count}

    cel: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(self.resources) || self.resources.size() == 0"
            " || !(has(self.resource) || has(self.count))",
            "rdma.resource and rdma.count are not allowed where rdma.resources is set",
        ),
        Rule(
            "!has(self.resources) || self.resources.all(k,"
            " k.size() <= 128 && k.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]'))",
            "keys of rdma.resources must be names like rdma/hca_shared_devices_a",
        ),
        Rule(
            "!has(self.fallback) || self.fallback == 'Never' || !has(self.preflight)"
            " || !has(self.preflight.enabled) || self.preflight.enabled",
            "rdma.fallback must be Never where rdma.preflight.enabled is false: nothing would tell"
            " that RDMA cannot work",
        ),
        Rule(
            "!has(self.networks) || self.networks.size() == 0"
            " || !has(self.hostNetwork) || !self.hostNetwork",
            "rdma.networks is not allowed where rdma.hostNetwork is true: such a pod has the"
            " node's networks",
        ),
    )
