"""What the proxies told of the traffic, and what the autoscaler makes of it; frozen values.

scaling.py fills them, reconcile.py carries them, status/ turns them into conditions.
"""

from dataclasses import dataclass
from typing import Protocol

from pd_operator.api.deployment import PDDeployment
from pd_operator.autoscale.decision import TierDecision
from pd_operator.observe import Snapshot


@dataclass(frozen=True)
class TrafficView:
    """All proxies of one PDDeployment together, over the last `window_seconds`.

    The KV numbers are prompt tokens. `kv_expected` should have reached a decoder by KV transfer,
    `kv_moved` did, `kv_recomputed` were computed by decoders instead. The `settled` pair leaves
    out the newest 30 s of what was expected: the decoders' own counters are read later than the
    requests are counted. `requests` arrived within the window; latencies are in seconds, None
    where nothing was measured. Not `fresh`: no proxy could be read lately.
    """

    kv_expected: float = 0.0
    kv_moved: float = 0.0
    kv_recomputed: float = 0.0
    window_seconds: float = 300.0
    ttft_p95: float | None = None
    tpot_p95: float | None = None
    requests: float = 0.0
    fresh: bool = False
    kv_settled_expected: float = 0.0
    kv_settled_moved: float = 0.0
    kv_moves: bool = True
    """Whether the settled tokens moved, but for a part that does not matter."""
    kv_broken: bool = False
    """Whether transfers are lost as a rule; with neither, some were lost, too few to judge."""


@dataclass(frozen=True)
class Outlook:
    """What one look at the proxies gave; decisions are None where autoscaling is Off."""

    traffic: TrafficView = TrafficView()
    prefill: TierDecision | None = None
    decode: TierDecision | None = None


class Scaler(Protocol):
    """Looks at the proxies. `Outlook` of a deployment without a readable proxy is not `fresh`."""

    async def look(self, deployment: PDDeployment, snapshot: Snapshot) -> Outlook:
        """Scrape where the last scrape is an interval old, else the last outlook; never raises."""

    def forget(self, namespace: str, name: str) -> None:
        """Drop what is remembered of a PDDeployment that is gone."""
