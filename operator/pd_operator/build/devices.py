"""RDMA devices by name."""

from pd_operator.api.deployment import PDDeployment


def device_list(deployment: PDDeployment) -> str:
    """The RDMA devices that Mooncake may use, by comma; empty for all that the pod sees."""
    rdma = deployment.spec.rdma
    return ",".join(rdma.devices) if rdma else ""
