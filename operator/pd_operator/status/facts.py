"""What the writers of conditions know, and what they answer."""

from dataclasses import dataclass
from typing import Literal

from pd_operator.api.deployment import PDDeployment
from pd_operator.api.status import Condition
from pd_operator.build import Desired, TierChild
from pd_operator.observe import Snapshot
from pd_operator.outcome import Outcome
from pd_operator.plan import Replicas
from pd_operator.traffic import Outlook
from pd_shared import labels

State = Literal["True", "False", "Unknown"]


@dataclass(frozen=True)
class Verdict:
    """What a condition says now."""

    status: State
    reason: str
    message: str = ""


@dataclass(frozen=True)
class Facts:
    """One reconcile of a valid PDDeployment, after its writes."""

    deployment: PDDeployment
    desired: Desired
    snapshot: Snapshot
    replicas: Replicas
    outcome: Outcome
    outlook: Outlook
    url: str

    def tier(self, component: str) -> TierChild:
        """The desired revision of a tier."""
        if component == labels.PREFILLER:
            return self.desired.prefiller
        return self.desired.decoder

    def wanted(self, component: str) -> int:
        """Replicas that a tier is to have."""
        if component == labels.PREFILLER:
            return self.replicas.prefill
        return self.replicas.decode


Previous = dict[str, Condition]
"""The conditions as last written, by type."""
