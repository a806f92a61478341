"""How many replicas the evidence of one moment asks for, before any limit. Pure."""

import math
from dataclasses import dataclass

from pd_operator.autoscale import memory
from pd_operator.autoscale.case import Case
from pd_operator.autoscale.decision import Reason, TierState
from pd_operator.autoscale.prefill_model import Demand, Prompts, needed
from pd_operator.autoscale.queueing import MOST, useful
from pd_operator.autoscale.window import Freshness

ALL = 0.985
"""Replicas beyond those that let this part be in time cannot help."""
CHANCE = 2.0
"""Standard deviations that are taken for chance."""
LIKELY = 0.8
"""Decoders are for this part of what may come: a request outlasts most bursts."""
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Need:
    """Replicas by the load (0: unknown) and by the latency (0: the target is met).

    `futile` where the target is missed though more replicas would not help.
    """

    by_load: int
    by_latency: int
    reason: Reason
    futile: bool = False

    @property
    def most(self) -> int:
        """The larger of both."""
        return max(self.by_load, self.by_latency)


def need(case: Case, state: TierState) -> Need:
    """What the tier needs at least."""
    miss = case.miss
    by_load = _by_load(case, state, 1.0)
    if miss.ratio <= 1 or case.idle or case.view.signals.samples < case.policy.min_samples:
        return Need(by_load, 0, miss.reason)
    ready = case.view.ready
    wanted = max(ready + 1, math.ceil(ready * miss.ratio - _ROUNDING))
    limit = _useful(case, state)
    wanted = min(wanted, limit)
    if wanted <= ready:
        return Need(by_load, 0, miss.reason, futile=by_load <= ready)
    return Need(by_load, wanted, miss.reason)


def enough(case: Case, state: TierState) -> int | None:
    """How few replicas would do; None where the evidence does not say."""
    signals = case.view.signals
    trust = {signals.load.freshness, signals.latency.freshness, signals.in_flight.freshness}
    if trust != {Freshness.FRESH} or signals.load.value is None:
        return None
    if case.idle:
        return 0
    ratio, ready = case.miss.ratio, case.view.ready
    if signals.latency.value is None:
        return None
    modelled = (
        memory.work(case, state) is not None and signals.queue is not None
        if case.words.serial
        else state.steps.line() is not None and signals.tokens is not None
    )
    if modelled:
        # The model says what fewer would do, unless it is wrong about how it is now.
        by_latency = ready if ratio > case.policy.headroom else 1
    else:
        # Without a model the latency is taken to grow as the load of each replica does.
        by_latency = math.ceil(ready * ratio / case.policy.down_margin - _ROUNDING)
    if ratio > 1:
        by_latency = max(by_latency, case.view.current)
    by_load = _by_load(case, state, 1 / case.policy.headroom)
    # Replicas that cannot help are not needed, however slow it is.
    return max(1, by_load, min(by_latency, _useful(case, state)))


def _by_load(case: Case, state: TierState, factor: float) -> int:
    """Replicas for the load times `factor`; 0 where nothing is known of a replica's work."""
    load, target, queue = case.view.signals.load.value, case.tier.target, case.view.signals.queue
    if load is None or target is None or load == 0:
        return 0
    if not case.words.serial:
        return _by_steps(case, state, factor)
    work = memory.work(case, state)
    if work is None or queue is None:
        return 0
    service = work * load / queue.requests
    prompts = Prompts(service, state.variation, target)
    ahead = state.past.ahead(load, _lead(case, state))
    expected = min(load, sum(coming * weight for coming, weight in ahead))
    extra = _backlog(case, state, service, expected * work)
    demands = [Demand(coming * factor * work + extra, weight) for coming, weight in ahead]
    # What comes may be less than now, by the past; the present and its trend must be borne.
    soon = _ahead(case, state, load)
    now = needed([Demand(soon * factor * work + extra, 1.0)], prompts, case.policy.attain)
    return max(now, needed(demands, prompts, case.policy.attain))


def _by_steps(case: Case, state: TierState, factor: float) -> int:
    """Decoders by the time of their steps, else by the load at which they failed."""
    signals = case.view.signals
    line = state.steps.line()
    if line is not None and signals.tokens is not None and case.tier.target is not None:
        load = signals.load.value or 0.0
        ahead = state.past.ahead(load, _lead(case, state))
        growth = min(2.0, max(1.0, _likely(ahead) / load)) if load > 0 else 1.0
        replicas = line.needed(signals.tokens * growth * factor, case.tier.target)
        if replicas is not None:
            return replicas
    capacity = memory.capacity(case, state)
    load = signals.load.value or 0.0
    return 0 if capacity is None else math.ceil(load * factor / capacity - _ROUNDING)


def _likely(ahead: tuple[tuple[float, float], ...]) -> float:
    weight = 0.0
    for coming, own in sorted(ahead):
        weight += own
        if weight >= LIKELY:
            return coming
    return 0.0


def _ahead(case: Case, state: TierState, load: float) -> float:
    """The load when a pod that is asked for now would be ready; never less than now's."""
    signals = case.view.signals
    if signals.before is None or signals.queue is None:
        return load
    # What may be chance is no trend: the counts of two windows differ by so much.
    chance = CHANCE * load * math.sqrt((1 + state.variation) / max(1.0, signals.queue.count))
    growth = max(0.0, load - signals.before - chance) / case.policy.window
    # The window's mean is that of its middle. No forecast reaches beyond a doubling. What bursts
    # took back before, they are not expected to keep.
    lead = _lead(case, state)
    rise = growth * (lead + case.policy.window / 2) * state.past.lasting(lead)
    return min(2 * load, load + rise)


def _lead(case: Case, state: TierState) -> float:
    """Seconds until a pod that is asked for now is ready."""
    return case.policy.start if state.start is None else state.start


def _backlog(case: Case, state: TierState, service: float, expected: float) -> float:
    """Erlangs for working off what will still wait when a pod that is asked for now is ready."""
    view, lead = case.view, _lead(case, state)
    waiting = max(0.0, (view.signals.in_flight.value or 0.0) - 2 * view.ready)
    worked_off = max(0.0, view.ready - expected) * lead
    time = max(lead, case.tier.target or 0.0, case.policy.window)
    return max(0.0, waiting * service - worked_off) / time


def _useful(case: Case, state: TierState) -> int:
    """Replicas beyond which more cannot help."""
    load, queue = case.view.signals.load.value or 0.0, case.view.signals.queue
    if not case.words.serial:
        return useful(load)
    if queue is None:
        return MOST
    work = memory.work(case, state)
    if work is None or case.tier.target is None or load <= 0:
        return useful(queue.busy)
    prompts = Prompts(work * load / queue.requests, state.variation, case.tier.target)
    return max(2, needed([Demand(load * work, 1.0)], prompts, ALL))
