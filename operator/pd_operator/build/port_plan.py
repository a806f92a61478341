"""Every TCP port that an engine pod listens on, so that pods can share a host's network.

Ports that vLLM and Mooncake take at random are not here: the kernel gives them what is free.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from pd_operator.api.kv_transfer import Connector
from pd_operator.build.parts.part import Tier
from pd_shared import ports

_BOOTSTRAPPED: Final = (Connector.MOONCAKE, Connector.MULTI)


@dataclass(frozen=True)
class EnginePort:
    """One port of one pod; `name` is unique within the pod, and a port's name in Kubernetes."""

    name: str
    number: int


def port_plan(tier: Tier, node_rank: int = 0) -> tuple[EnginePort, ...]:
    """The ports of a replica's pod number `node_rank`; 0 is the leader, or the only one."""
    return tuple(_ports(tier, node_rank))


def host_ports(tier: Tier) -> tuple[EnginePort, ...]:
    """The ports of every pod of a replica together: what a pod on a node's network declares.

    All pods of a tier are made from one template, and any of them may be the leader. The scheduler
    puts no two pods with a port in common on one node, and every engine has HTTP: so engines on the
    node's network never meet, whosever they are, nor anything else that declares such a port.
    """
    pods = range(tier.spec.parallelism.nodes)
    return tuple(dict.fromkeys(port for rank in pods for port in port_plan(tier, rank)))


def _ports(tier: Tier, node_rank: int) -> Iterator[EnginePort]:
    parallelism = tier.spec.parallelism
    connector = tier.deployment.spec.connector
    leads = node_rank == 0
    if leads:
        yield EnginePort("http", ports.HTTP)
    sends = tier.is_prefiller or tier.deployment.spec.kv_transfer.symmetric
    if leads and connector in _BOOTSTRAPPED and sends and not tier.colocated:
        yield EnginePort("bootstrap", ports.BOOTSTRAP)
    if connector is Connector.NIXL and not tier.colocated:
        # vLLM adds the rank's index among all of the replica to the first port.
        first = node_rank * parallelism.data_per_pod
        for rank in range(first, first + parallelism.data_per_pod):
            yield EnginePort(f"nixl-{rank}", ports.NIXL + rank)
    if parallelism.grouped:
        yield EnginePort("group", ports.GROUP_HEALTH)
        if leads:
            yield EnginePort("rendezvous", ports.GROUP)
            if parallelism.data > 1:
                yield EnginePort("data-parallel", ports.DATA_PARALLEL_RPC)
            else:
                yield EnginePort("master", ports.GROUP_MASTER)
