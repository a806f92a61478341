"""How many replicas each tier is to have: by the spec, or by the autoscaler; pure."""

from pd_operator.api.autoscaling import Mode, TierBounds
from pd_operator.api.deployment import PDDeployment
from pd_operator.autoscale.decision import TierDecision
from pd_operator.build import Desired, TierChild
from pd_operator.observe import Snapshot
from pd_operator.plan import Replicas, current
from pd_operator.traffic import Outlook
from pd_shared import labels

_DEFAULT = 1


def replicas(
    deployment: PDDeployment, desired: Desired, snapshot: Snapshot, outlook: Outlook
) -> Replicas:
    """Replicas of both tiers; 0 of one that the mode does not have.

    In mode Auto the StatefulSets are the memory: what was decided last holds until there is
    another decision, also across a restart and over to a new revision.
    """
    spec, bounds = deployment.spec, deployment.spec.autoscaling

    def number(
        component: str, first: int | None, within: TierBounds, decision: TierDecision | None
    ) -> int:
        tier = desired.tier(component)
        if tier is None:
            return 0
        if bounds.mode is not Mode.AUTO:
            return first or _DEFAULT
        return _auto(first, within, tier, snapshot, decision)

    return Replicas(
        number(labels.PREFILLER, spec.prefill.replicas, bounds.prefill, outlook.prefill),
        number(labels.DECODER, spec.decode.replicas, bounds.decode, outlook.decode),
    )


def _auto(
    first: int | None,
    bounds: TierBounds,
    tier: TierChild,
    snapshot: Snapshot,
    decision: TierDecision | None,
) -> int:
    if decision is not None:
        number = decision.desired
    else:
        number = _remembered(tier, snapshot) or first or bounds.min
    return min(max(number, bounds.min), max(bounds.min, bounds.max))


def _remembered(tier: TierChild, snapshot: Snapshot) -> int | None:
    now = current(snapshot, tier)
    if now is not None:
        return now.replicas
    others = [s for s in snapshot.tier(tier.component) if not s.deleting]
    return others[0].replicas if others else None
