"""`spec.placement`: how the engines of both tiers are brought onto nodes."""

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from pd_operator.api.base import ApiModel, DnsLabel, DnsSubdomain, Rule
from pd_operator.api.tier import LabelKey


class GangScheduler(StrEnum):
    """Who starts pods all or none."""

    KUEUE = "Kueue"
    VOLCANO = "Volcano"
    COSCHEDULING = "Coscheduling"


class Gang(ApiModel):
    """Pods start all or none, so that no part of a replica holds GPUs that wait for the rest.

    All pods of a tier's revision are one gang, for the pods of one StatefulSet cannot differ.
    """

    scheduler: GangScheduler
    """`Kueue`, `Volcano`, or `Coscheduling`, the plugin of scheduler-plugins; it must be installed.

    Kueue admits a StatefulSet once, as large as it is then: `autoscaling.mode` must not be Auto.
    Coscheduling makes no PodGroups: those named in the pods must be there, each with the
    `minMember` that is wanted, and no pod of a tier starts without its own.
    Becomes: `Kueue`: the label of queue; `Volcano`: `schedulerName: volcano`, and the annotation
    `scheduling.volcano.sh/group-min-member` of the StatefulSet with the number of its pods;
    `Coscheduling`: `schedulerName`, and the label `scheduling.x-k8s.io/pod-group` with
    `<name>-prefiller` or `<name>-decoder`.
    """
    scheduler_name: DnsSubdomain | None = None
    """Name of the scheduler that has the plugin; only with Coscheduling.
    Default: `scheduler-plugins-scheduler`, as its chart installs it.

    Becomes: `schedulerName` of the pods.
    """
    queue: DnsLabel | None = None
    """Kueue's LocalQueue, which must be named, or Volcano's Queue; not with Coscheduling.
    Default: Volcano's own.

    Becomes: the label `kueue.x-k8s.io/queue-name`, or the annotation
    `scheduling.volcano.sh/queue-name`.
    """

    cel: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "self.scheduler != 'Kueue' || has(self.queue)",
            "gang.queue must name a LocalQueue where gang.scheduler is Kueue",
        ),
        Rule(
            "self.scheduler != 'Coscheduling' || !has(self.queue)",
            "gang.queue is not allowed where gang.scheduler is Coscheduling: it has no queues",
        ),
        Rule(
            "self.scheduler == 'Coscheduling' || !has(self.schedulerName)",
            "gang.schedulerName is only allowed where gang.scheduler is Coscheduling",
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
