"""`spec.rdma`: fields that exclude one another."""

from collections.abc import Iterator

from pd_operator.api.deployment import PDDeployment
from pd_operator.checks.problem import Problem


def rdma_problems(deployment: PDDeployment) -> Iterator[Problem]:
    """Two ways of asking for devices, and networks that a pod cannot have."""
    rdma = deployment.spec.rdma
    if rdma is None:
        return
    for field in ("resource", "count"):
        if rdma.resources and field in rdma.model_fields_set:
            yield Problem(
                "InvalidRDMA",
                f"spec.rdma.{field}",
                f"spec.rdma.{field} is not allowed where spec.rdma.resources is set",
            )
    if rdma.networks and rdma.host_network:
        yield Problem(
            "InvalidRDMA",
            "spec.rdma.networks",
            "spec.rdma.networks is not allowed where spec.rdma.hostNetwork is true: such a pod has"
            " the node's networks",
        )
