"""The NetworkPolicy that fences in what asks for no password: all pods but the proxy's.

A node's kubelet reaches the pods of that node in any case, for their probes.
"""

from typing import Final

from pd_operator.api.deployment import PDDeployment
from pd_operator.api.kv_transfer import Protocol
from pd_operator.api.network import Isolation
from pd_operator.build import names
from pd_operator.build.manifest import Manifest, child
from pd_shared import labels, ports

_NAMESPACE: Final = "kubernetes.io/metadata.name"
"""The label that Kubernetes gives each namespace."""


def network_policies(deployment: PDDeployment) -> tuple[Manifest, ...]:
    """One, or none where it is not wanted or engines have the nodes' network.

    Those come with their node's address: a policy would keep them from the Mooncake master, and
    would not hold for themselves.
    """
    network, name = deployment.spec.network, deployment.metadata.name
    if network.isolation is Isolation.DISABLED or _on_nodes(deployment):
        return ()
    own = {"podSelector": {"matchLabels": {labels.DEPLOYMENT: name}}}
    monitors = [
        {"namespaceSelector": {"matchLabels": {_NAMESPACE: namespace}}}
        for namespace in network.monitoring_namespaces
    ]
    scrape = {"from": monitors, "ports": [{"port": ports.HTTP, "protocol": "TCP"}]}
    return (
        child(
            deployment,
            "networking.k8s.io/v1",
            "NetworkPolicy",
            names.engine(name),
            labels.ENGINE,
            spec={
                "podSelector": {
                    "matchLabels": {labels.DEPLOYMENT: name},
                    "matchExpressions": [
                        {"key": labels.COMPONENT, "operator": "NotIn", "values": [labels.PROXY]}
                    ],
                },
                "policyTypes": ["Ingress"],
                # Engines meet at ports that they take at random.
                "ingress": [{"from": [own]}, *([scrape] if monitors else [])],
            },
        ),
    )


def _on_nodes(deployment: PDDeployment) -> bool:
    spec = deployment.spec
    rdma = spec.kv_transfer.protocol is Protocol.RDMA and not spec.colocated
    return rdma and spec.rdma is not None and spec.rdma.host_network
