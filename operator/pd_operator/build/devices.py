"""RDMA devices by name, and the variables that say how they are used."""

from pd_operator.api.deployment import PDDeployment
from pd_operator.api.rdma import MemoryRegistration


def device_list(deployment: PDDeployment) -> str:
    """The RDMA devices that Mooncake may use, by comma; empty for all that the pod sees."""
    rdma = deployment.spec.rdma
    return ",".join(rdma.devices) if rdma else ""


def device_env(deployment: PDDeployment) -> dict[str, str]:
    """What is given of the wire and of memory registration; nothing where it is not."""
    rdma = deployment.spec.rdma
    if rdma is None:
        return {}
    gid, way = rdma.gid_index, rdma.memory_registration
    peermem = None if way is None else int(way is MemoryRegistration.PEERMEM)
    given = {
        "MC_GID_INDEX": gid,
        "NCCL_IB_GID_INDEX": gid,
        "UCX_IB_GID_INDEX": gid,
        "MC_MTU": rdma.mtu,
        "MC_IB_TC": rdma.traffic_class,
        "MC_IB_SL": rdma.service_level,
        "MC_PKEY_INDEX": rdma.pkey_index,
        "WITH_NVIDIA_PEERMEM": peermem,
    }
    return {name: str(value) for name, value in given.items() if value is not None}


def ucx_env(deployment: PDDeployment) -> dict[str, str]:
    """The same for UCX, but for the GID index, which `device_env` has, and the partition key.

    UCX takes that key by its value. Names and values are those of UCX as NIXL 1.5 brings it.
    """
    rdma = deployment.spec.rdma
    if rdma is None:
        return {}
    way = rdma.memory_registration
    given = {
        "UCX_IB_PATH_MTU": rdma.mtu,
        "UCX_IB_TRAFFIC_CLASS": rdma.traffic_class,
        "UCX_IB_SL": rdma.service_level,
        "UCX_CUDA_COPY_DMABUF": way and ("yes" if way is MemoryRegistration.DMA_BUF else "no"),
        "UCX_NET_DEVICES": ",".join(f"{name}:1" for name in rdma.devices) or None,
    }
    return {name: str(value) for name, value in given.items() if value is not None}
