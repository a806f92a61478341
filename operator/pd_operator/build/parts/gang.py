"""Pods that start all or none: what gang schedulers read, see `spec.placement.gang`.

Kueue takes a StatefulSet with its label as one workload and adds what its pods need. Volcano makes
a PodGroup for each StatefulSet; `plan.with_replicas` writes how many pods start at once. The
coscheduling plugin of scheduler-plugins makes none: its pods name one that is there already.
"""

from typing import Final

from pd_operator.api.placement import GangScheduler
from pd_operator.build import names
from pd_operator.build.parts.part import Part, Tier
from pd_shared.labels import GANG_SIZE

_KUEUE_QUEUE: Final = "kueue.x-k8s.io/queue-name"
_VOLCANO_QUEUE: Final = "scheduling.volcano.sh/queue-name"
_POD_GROUP: Final = "scheduling.x-k8s.io/pod-group"
_COSCHEDULER: Final = "scheduler-plugins-scheduler"
"""The name that the chart of scheduler-plugins gives its scheduler."""


def part(tier: Tier) -> Part:
    """Nothing where no gang is asked for."""
    gang = tier.deployment.spec.placement.gang
    if gang is None:
        return Part()
    if gang.scheduler is GangScheduler.KUEUE:
        return Part(labels={_KUEUE_QUEUE: gang.queue} if gang.queue else {})
    if gang.scheduler is GangScheduler.COSCHEDULING:
        return Part(
            pod={"schedulerName": gang.scheduler_name or _COSCHEDULER},
            labels={_POD_GROUP: names.tier(tier.name, tier.component)},
        )
    return Part(
        pod={"schedulerName": "volcano"},
        annotations={_VOLCANO_QUEUE: gang.queue} if gang.queue else {},
        set_annotations={GANG_SIZE: ""},
    )
