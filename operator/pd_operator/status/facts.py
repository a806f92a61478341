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
    spec_hash: str = ""
    """Of the spec with its presets; empty without presets."""

    def tier(self, component: str) -> TierChild | None:
        """The desired revision of a tier; None where the mode does not have it."""
        return self.desired.tier(component)

    def wanted(self, component: str) -> int:
        """Replicas that a tier is to have."""
        return self.replicas.of(component)


Previous = dict[str, Condition]
"""The conditions as last written, by type."""
