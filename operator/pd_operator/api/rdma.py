"""`spec.rdma`: RDMA devices of engine pods."""

from typing import Annotated

from pydantic import Field

from pd_operator.api.base import ApiModel, ResourceName


class RDMASpec(ApiModel):
    """RDMA devices of engine pods, from a Kubernetes device plugin."""

    resource: ResourceName = "rdma/hca_shared_devices_a"
    """Resource that the device plugin advertises. Default: `rdma/hca_shared_devices_a`.

    Becomes: a request and a limit of the container `engine`.
    """
    count: Annotated[int, Field(ge=1, le=64)] = 1
    """How many of the resource each engine pod asks for. Default: 1.

    Becomes: the number of that request and limit.
    """
    devices: Annotated[
        tuple[Annotated[str, Field(min_length=1, max_length=32, pattern=r"^[A-Za-z0-9_]+$")], ...],
        Field(max_length=16),
    ] = ()
    """Devices that Mooncake uses, like `mlx5_0`. Default: all that the pod sees.

    Becomes: `device_name` of `--kv-transfer-config`, and `MC_TE_FILTERS`.
    """
