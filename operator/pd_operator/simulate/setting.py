"""What is simulated, what a policy sees of it, and what a run gives."""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Protocol

from pd_operator.autoscale.sample import ProxySample
from pd_operator.simulate.latency import Latency
from pd_operator.simulate.tier import Job


class Routing(StrEnum):
    """How the proxy chooses a pod."""

    ROUND_ROBIN = "round-robin"
    TWO_CHOICES = "two-choices"
    """Of two at random the one with less in flight."""


@dataclass(frozen=True)
class Tiers:
    """Pods of both tiers: asked for, and ready (not draining).

    `backlogs` are the seconds of queued work of each ready prefiller, `steps` the seconds of a
    decode step of each ready decoder.
    """

    prefill: int
    decode: int
    prefill_ready: int
    decode_ready: int
    backlogs: tuple[float, ...] = ()
    steps: tuple[float, ...] = ()


class Scaling(Protocol):
    """A policy: looked at every `interval` seconds."""

    interval: float

    def tick(self, now: float, sample: ProxySample, tiers: Tiers) -> tuple[int, int]:
        """How many prefillers and decoders there should be."""


@dataclass(frozen=True)
class Stuck:
    """Pods of a tier that are created between `since` and `until` start only after `until`."""

    tier: str
    since: float
    until: float


@dataclass(frozen=True)
class Setting:
    """What is simulated; times in seconds.

    `transfer_per_token` is the KV transfer's time, `kv_limit` a decoder's KV memory in tokens,
    `budget` the most GPUs (pods) at a time, counting those that drain. `slower` are times from
    which on a start takes so much longer, as (time, factor). `fail_every` is the mean time
    between two failures of a pod of any tier: what it served begins anew elsewhere.
    """

    latency: Latency
    startup: float
    prefill: int
    decode: int
    transfer_per_token: float = 5e-6
    kv_limit: float = 800_000.0
    budget: int = 64
    routing: Routing = Routing.ROUND_ROBIN
    slower: tuple[tuple[float, float], ...] = ()
    stuck: tuple[Stuck, ...] = ()
    fail_every: float | None = None
    seed: int = 0

    def ready_at(self, tier: str, now: float) -> float:
        """When a pod that is created now will be ready."""
        factor = next((f for time, f in reversed(self.slower) if now >= time), 1.0)
        for stuck in self.stuck:
            if stuck.tier == tier and stuck.since <= now < stuck.until:
                return stuck.until + factor * self.startup
        return now + factor * self.startup


@dataclass(frozen=True)
class Look:
    """Pods at one tick: asked for, ready, and all that cost something."""

    time: float
    prefill: int
    decode: int
    prefill_ready: int
    decode_ready: int
    pods: int


@dataclass
class Run:
    """What a simulation gave."""

    jobs: list[Job] = field(default_factory=list)
    pod_seconds: float = 0.0
    changes: list[tuple[float, str, int, int]] = field(default_factory=list)
    """Time, tier, replicas before and after."""
    seconds: float = 0.0
    initial: dict[str, int] = field(default_factory=dict)
    looks: list[Look] = field(default_factory=list)
    over_budget: int = 0
    """Ticks at which a policy asked for more than the budget."""


def tpot(job: Job) -> float | None:
    """Seconds per token after the first; None for a single token."""
    if job.first_token is None or job.finished is None or job.request.output < 2:
        return None
    return max(0.0, job.finished - job.first_token) / (job.request.output - 1)
