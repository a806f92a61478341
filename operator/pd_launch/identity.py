"""Who a pod is in its group: all of it follows from its name. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

_POD = re.compile(r"(?P<set>[a-z0-9](?:[-.a-z0-9]*[a-z0-9])?)-(?P<ordinal>0|[1-9][0-9]{0,8})")


@dataclass(frozen=True)
class Identity:
    """One member of a group of `size` consecutive pods of a StatefulSet."""

    stateful_set: str
    ordinal: int
    """The pod's, in its StatefulSet."""
    size: int
    revision: str
    """What all members must agree on beside their number; "" when nothing."""

    @property
    def leader(self) -> int:
        """Ordinal of the group's first pod."""
        return self.ordinal // self.size * self.size

    @property
    def rank(self) -> int:
        """Of this pod in its group; 0 for the leader."""
        return self.ordinal - self.leader

    @property
    def group(self) -> str:
        """What members call the group when they meet."""
        return f"{self.stateful_set}/{self.leader // self.size}"

    @property
    def workers(self) -> range:
        """Ordinals of the group's other pods."""
        return range(self.leader + 1, self.leader + self.size)

    def leader_address(self, service: str, namespace: str, domain: str) -> str:
        """DNS name of the leader's pod under its headless Service."""
        return f"{self.stateful_set}-{self.leader}.{service}.{namespace}.svc.{domain}"


def identity(pod: str, size: int, revision: str) -> Identity:
    """The member that the pod named `pod` is; ValueError for a name without an ordinal."""
    found = _POD.fullmatch(pod)
    if found is None:
        raise ValueError(f"{pod!r} is not the name of a StatefulSet's pod")
    return Identity(found["set"], int(found["ordinal"]), size, revision)


def substituted(
    command: Sequence[str], me: Identity, leader_address: str, ranks_per_node: int
) -> list[str]:
    """The engine's command with {node_rank}, {start_rank} and {leader_address} filled in.

    Other braces stay: arguments may be JSON.
    """
    values = {
        "{node_rank}": str(me.rank),
        "{start_rank}": str(me.rank * ranks_per_node),
        "{leader_address}": leader_address,
    }
    result = []
    for argument in command:
        filled = argument
        for name, value in values.items():
            filled = filled.replace(name, value)
        result.append(filled)
    return result
