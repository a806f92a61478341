"""`spec.rdma`: fields that exclude one another."""

from collections.abc import Iterator

from pd_operator.api.deployment import PDDeployment
from pd_operator.api.kv_transfer import Connector
from pd_operator.api.rdma import Fallback
from pd_operator.checks.problem import Problem


def rdma_problems(deployment: PDDeployment) -> Iterator[Problem]:
    """Two ways of asking for devices, networks that a pod cannot have, a fallback of no use."""
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
    if rdma.fallback is Fallback.NEVER:
        return
    if deployment.spec.connector is not Connector.MOONCAKE:
        yield Problem(
            "InvalidRDMA",
            "spec.rdma.fallback",
            f"spec.rdma.fallback must be Never with connector {deployment.spec.connector}; only"
            " Mooncake without the store can take TCP instead",
        )
    if not rdma.preflight.enabled:
        yield Problem(
            "InvalidRDMA",
            "spec.rdma.fallback",
            "spec.rdma.fallback must be Never where spec.rdma.preflight.enabled is false: nothing"
            " would tell that RDMA cannot work",
        )
