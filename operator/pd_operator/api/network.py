"""`spec.network`: who reaches the pods."""

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from pd_operator.api.base import ApiModel, DnsLabel, Rule


class Isolation(StrEnum):
    """Whether other pods are kept away."""

    ENABLED = "Enabled"
    DISABLED = "Disabled"


class NetworkSpec(ApiModel):
    """Who reaches engines, the Mooncake master, the store's pool and the LMCache server.

    None of them asks for a password, as vLLM, Mooncake and LMCache are made. The proxy is open.
    """

    isolation: Isolation = Isolation.ENABLED
    """`Enabled`: only pods of this PDDeployment, where the cluster's network plugin enforces
    NetworkPolicies; not with `rdma.hostNetwork`, to which they do not apply. Default: `Enabled`.

    Becomes: a NetworkPolicy for all pods but the proxy's.
    """
    monitoring_namespaces: Annotated[
        tuple[DnsLabel, ...],
        Field(max_length=16, json_schema_extra={"x-kubernetes-list-type": "set"}),
    ] = ()
    """Namespaces whose pods may reach the engines' HTTP port, which has their metrics, and
    everything else that vLLM serves. Default: none.

    Becomes: another source in that NetworkPolicy, by the label `kubernetes.io/metadata.name`.
    """

    cel: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(self.monitoringNamespaces) || self.monitoringNamespaces.size() == 0"
            " || !has(self.isolation) || self.isolation == 'Enabled'",
            "network.monitoringNamespaces is only allowed where network.isolation is Enabled",
        ),
    )
