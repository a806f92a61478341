"""What the autoscaler is told and what it answers; plain values without behaviour."""

from dataclasses import dataclass, field
from enum import StrEnum

from pd_operator.api.autoscaling import Mode
from pd_operator.autoscale.decode_model import Steps
from pd_operator.autoscale.forecast import Past
from pd_operator.autoscale.window import Freshness


class Reason(StrEnum):
    """Why a tier is to have the replicas that it is to have; a closed set."""

    STEADY = "Steady"
    TTFT_ABOVE_TARGET = "TTFTAboveTarget"
    TPOT_ABOVE_TARGET = "TPOTAboveTarget"
    LOAD_ABOVE_CAPACITY = "LoadAboveCapacity"
    LOAD_BELOW_CAPACITY = "LoadBelowCapacity"
    NO_TRAFFIC = "NoTraffic"
    TARGET_UNATTAINABLE = "TargetUnattainable"
    AT_MAX = "AtMax"
    AT_MIN = "AtMin"
    AT_BUDGET = "AtBudget"
    NO_METRICS = "NoMetrics"
    STALE_METRICS = "StaleMetrics"
    NOT_READY = "NotReady"
    BACKLOG_DRAINING = "BacklogDraining"
    STABILIZATION_WINDOW = "StabilizationWindow"
    COOLDOWN = "Cooldown"
    NO_TARGET = "NoTarget"


class Limit(StrEnum):
    """What kept a decision from going where the numbers point; a closed set."""

    NONE = "None"
    MIN = "Min"
    MAX = "Max"
    BUDGET = "Budget"
    """Both tiers together may have so many."""
    FACTOR = "Factor"
    """One decision raises at most so many times."""
    STEP = "Step"
    """One decision lowers at most so much."""
    STABILIZATION = "StabilizationWindow"
    COOLDOWN = "Cooldown"
    HOLD = "Hold"
    """There is no evidence that may be acted upon."""


@dataclass(frozen=True)
class Signal:
    """One measured number and how far it can be trusted; None where it has no value."""

    value: float | None = None
    freshness: Freshness = Freshness.ABSENT


@dataclass(frozen=True)
class Queue:
    """How a tier that serves one request after the other did in the window.

    `busy` is how many requests were in it on average, `served` the load that it worked off per
    second, `requests` how many requests came per second, `count` how many in all. `length` is the
    mean load of one of those that were answered.
    """

    busy: float
    served: float
    requests: float
    count: float
    length: float | None = None


@dataclass(frozen=True)
class TierSignals:
    """What is known of one tier's work.

    `load` is prompt tokens per second offered (prefill) or requests being decoded on average
    (decode). `latency` is the tier's 95th percentile in seconds, of `samples` requests; without
    a value where none was answered. `in_flight` is the number of requests now; `draining` says
    that a backlog is being worked off, so that latencies tell of the past.

    Only of the prefill tier: `queue`, and `before`, the load in the window before this one. Only
    of the decode tier: `handoff`, the mean seconds between a prefill's answer and the first
    token, which grow when the decoders have no room; `mean`, the mean time per token in seconds;
    `tokens`, the tokens per second that are asked for.
    """

    load: Signal = Signal()
    latency: Signal = Signal()
    samples: float = 0.0
    in_flight: Signal = Signal()
    draining: bool = False
    queue: Queue | None = None
    before: float | None = None
    handoff: float | None = None
    mean: float | None = None
    tokens: float | None = None


@dataclass(frozen=True)
class TierView:
    """One tier: pods that were asked for, pods that are ready, and what they do."""

    current: int
    ready: int
    signals: TierSignals = TierSignals()
    draining: int = 0
    """Pods that go, and still count in a budget."""


@dataclass(frozen=True)
class Observation:
    """All that one decision rests on.

    `window` is the seconds that the signals cover, `requests` the requests offered per second.
    """

    prefill: TierView
    decode: TierView
    requests: Signal = Signal()
    window: float = 0.0


@dataclass(frozen=True)
class TierPolicy:
    """One tier's target in seconds (None: has none) and bounds in replicas.

    `handoff_target` is the target of the time to first token, for the decode tier's part in it.
    """

    target: float | None
    min: int
    max: int
    handoff_target: float | None = None


@dataclass(frozen=True)
class Policy:
    """What the user asks for, and the constants of the rule; times in seconds."""

    mode: Mode
    prefill: TierPolicy
    decode: TierPolicy
    stabilization: float = 300.0
    """A tier shrinks only when less was enough for this long."""
    window: float = 60.0
    """Time over which signals are taken; also the least time between two steps down."""
    start_deadline: float = 600.0
    """A pod that is not ready after this time does not count as coming any more."""
    max_factor: float = 2.0
    down_fraction: float = 0.1
    """One step down is this part of the tier, and at least one replica."""
    down_margin: float = 0.6
    """A tier shrinks only where the latency would stay below this part of the target."""
    headroom: float = 0.85
    """Part of the known capacity that is planned for."""
    min_samples: float = 3.0
    """Fewer requests than this are no evidence for growing."""
    handoff_part: float = 0.25
    """Part of the TTFT target that the decoders may take until the first token."""
    start: float = 60.0
    """Seconds that a pod is taken to need until it is ready, before that was seen."""
    attain: float = 0.97
    """Part of the requests to be in time, by the model, of those that can be: more than 95 %."""
    budget: int | None = None
    """Most replicas of both tiers together."""
    learning: float = 0.2
    """Weight of one observation in the estimate of the work."""
    waiting: float = 0.25
    """Weight of an observation above the estimate beside one below it."""
    least_evidence: float = 20.0
    """Requests that an estimate must rest on before it is used."""
    memory: float = 1800.0
    """How long a measured capacity is believed, seconds."""
    colocated: bool = False
    """One tier does both: `prefill` and `decode` are its two targets, with the same bounds."""


@dataclass(frozen=True)
class Peak:
    """A load per replica seen at a time."""

    load: float
    time: float


@dataclass(frozen=True)
class TierState:
    """What is remembered of one tier from one decision to the next.

    `recommendations` are (time, replicas) with falling replicas: the maximum over any recent
    stretch of time can be read from them. `evidence_since` is None while evidence is missing.
    """

    target: float | None = None
    ready: int | None = None
    settled_at: float | None = None
    """When the number of ready pods last rose: older latencies are of fewer pods."""
    coming_since: float | None = None
    changed_at: float | None = None
    evidence_since: float | None = None
    recommendations: tuple[tuple[float, int], ...] = ()
    breached: Peak | None = None
    """Lowest load per replica at which the target was missed."""
    proven: Peak | None = None
    """Highest load per replica at which the target was met."""
    work: float | None = None
    """Seconds that a replica works for one unit of load, as estimated from the queue."""
    evidence: float = 0.0
    """Requests that the estimate of the work rests on."""
    start: float | None = None
    """Seconds until the last pods became ready."""
    length: float | None = None
    """Mean load of a request."""
    variation: float = 1.0
    """Squared coefficient of variation of the load of a request."""
    past: Past = field(default_factory=Past)
    """Loads of the last hour."""
    steps: Steps = field(default_factory=Steps)
    """What is known of a decode step."""


@dataclass(frozen=True)
class State:
    """What is remembered of both tiers; the empty one is that after a restart."""

    prefill: TierState = field(default_factory=TierState)
    decode: TierState = field(default_factory=TierState)


@dataclass(frozen=True)
class Input:
    """One number that a decision rests on; `value` None where there was none."""

    name: str
    value: float | None
    unit: str
    freshness: Freshness


@dataclass(frozen=True)
class TierDecision:
    """How many replicas a tier is to have, and why.

    `unbounded` is what the numbers alone ask for; `limit` is what kept `desired` from it.
    """

    current: int
    desired: int
    unbounded: int
    reason: Reason
    limit: Limit
    message: str
    inputs: tuple[Input, ...] = ()


@dataclass(frozen=True)
class Decision:
    """Both tiers' decisions, and what to remember for the next one.

    Where one tier does both, `decode` is its decision and `prefill` what the time to first token
    alone asks for.
    """

    prefill: TierDecision
    decode: TierDecision
    state: State
