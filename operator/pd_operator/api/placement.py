"""`spec.placement`: how the engines of both tiers are brought onto nodes."""

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from pd_operator.api.base import ApiModel, DnsLabel, Rule
from pd_operator.api.tier import LabelKey


class GangScheduler(StrEnum):
    """Who starts pods all or none.

    The coscheduling plugin of scheduler-plugins is absent: it needs a PodGroup object that the
    operator would have to keep in step with each scaling.
    """

    KUEUE = "Kueue"
    VOLCANO = "Volcano"


class Gang(ApiModel):
    """Pods start all or none, so that no part of a replica holds GPUs that wait for the rest.

    All pods of a tier's revision are one gang, for the pods of one StatefulSet cannot differ.
    """

    scheduler: GangScheduler
    """`Kueue` or `Volcano`, which must be installed.

    Kueue admits a StatefulSet once, as large as it is then: `autoscaling.mode` must not be Auto.
    Becomes: `Kueue`: the label of queue; `Volcano`: `schedulerName: volcano`, and the annotation
    `scheduling.volcano.sh/group-min-member` of the StatefulSet with the number of its pods.
    """
    queue: DnsLabel | None = None
    """Kueue's LocalQueue, which must be named, or Volcano's Queue. Default: Volcano's own.

    Becomes: the label `kueue.x-k8s.io/queue-name`, or the annotation
    `scheduling.volcano.sh/queue-name`.
    """

    cel: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "self.scheduler != 'Kueue' || has(self.queue)",
            "gang.queue must name a LocalQueue where gang.scheduler is Kueue",
        ),
    )


class NearSpec(ApiModel):
    """KV travels between the tiers: their pods belong into one zone, rack or RDMA fabric."""

    topology_key: Annotated[LabelKey, Field()] = "topology.kubernetes.io/zone"
    """Label of nodes whose value all pods share. Default: `topology.kubernetes.io/zone`.

    Becomes: `topologyKey` of the pods' affinity.
    """
    required: bool = False
    """Whether a pod waits rather than going elsewhere. Where the place is full, a rollout waits
    too. Default: false.

    Becomes: a required `podAffinity`, else a preferred one.
    """


class PlacementSpec(ApiModel):
    """How the engines of both tiers are brought onto nodes."""

    gang: Gang | None = None
    """All pods of a tier start at once or none does. Default: each as it fits."""
    near: NearSpec | None = None
    """How far the tiers are from one another. Default: each goes where it likes."""
