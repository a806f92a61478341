"""What a tier's state learns from one observation: pods that come, evidence, capacity."""

from dataclasses import replace
from typing import Final

from pd_operator.autoscale.case import Case
from pd_operator.autoscale.decision import Peak, TierState
from pd_operator.autoscale.prefill_model import erlangs_of
from pd_operator.autoscale.window import Freshness

SLOWLY: Final = 0.03
"""Most weight of one window in what is known of lengths: single long ones make the variation."""
VARIATIONS: Final = (0.25, 8.0)
"""Bounds of the squared variation of lengths."""


def observe(case: Case, state: TierState) -> TierState:
    """The state with the tier's pods and target taken note of."""
    view, tier, now = case.view, case.tier, case.now
    if state.target != tier.target:
        # What was met or missed by another target says nothing of this one.
        state = replace(state, target=tier.target, breached=None, proven=None)
    # The first look after a restart cannot know when the pods became ready; the window of
    # samples is empty then as well, so no old evidence can be acted upon.
    grown = state.ready is not None and view.ready > state.ready
    coming = max(0, view.current - view.ready)
    since = state.coming_since
    if coming == 0:
        since = None
    elif since is None or grown:
        since = now
    started = state.start
    if grown and state.coming_since is not None:
        started = now - state.coming_since
    load = view.signals.load
    past = state.past
    if load.value is not None and load.freshness is Freshness.FRESH:
        past = past.seen(now, load.value)
    return replace(
        state,
        past=past,
        start=started,
        ready=view.ready,
        settled_at=now if grown else state.settled_at,
        coming_since=since,
        breached=_believed(state.breached, case),
        proven=_believed(state.proven, case),
    )


def coming(case: Case, state: TierState) -> int:
    """Pods that were asked for and may still become ready."""
    since = state.coming_since
    late = since is not None and case.now - since > case.policy.start_deadline
    return 0 if late else max(0, case.view.current - case.view.ready)


def unsettled(case: Case, state: TierState) -> float:
    """Seconds until all of the window's latencies are of the pods that are ready now."""
    return 0.0 if state.settled_at is None else state.settled_at + case.policy.window - case.now


def learn(case: Case, state: TierState) -> TierState:
    """The state with what settled evidence teaches: a replica's work, and what it bears."""
    state = _learn_steps(case, _learn_lengths(case, state))
    return _learn_work(case, state) if case.words.serial else _learn_bearing(case, state)


def _learn_work(case: Case, state: TierState) -> TierState:
    queue, policy = case.view.signals.queue, case.policy
    if queue is None or queue.served <= 0 or queue.count <= 0:
        return state  # nothing was measured
    seen = erlangs_of(queue.busy, case.view.ready, state.variation) / queue.served
    if seen <= 0:
        return state
    weight = policy.learning * min(1.0, queue.count / policy.least_evidence)
    if state.work is not None and seen > state.work:
        # Requests that waited look like work: the lowest of what was seen is nearest to it.
        weight *= policy.waiting
    evidence = state.evidence + policy.learning * queue.count
    if state.work is None:
        return replace(state, work=seen, evidence=evidence)
    if state.evidence < policy.least_evidence:
        # The first windows are averaged: none of them is better than the others.
        weight = policy.learning * queue.count / evidence
        bounded = seen
    else:
        # One odd window must not carry the estimate away.
        bounded = min(2 * state.work, max(state.work / 2, seen))
    return replace(state, work=state.work + weight * (bounded - state.work), evidence=evidence)


def _learn_lengths(case: Case, state: TierState) -> TierState:
    queue = case.view.signals.queue
    if queue is None or not queue.length or queue.count < case.policy.min_samples:
        return state
    if state.length is None:
        return replace(state, length=queue.length)
    weight = min(SLOWLY, queue.count / 5000)
    length = state.length + weight * (queue.length - state.length)
    # The means of windows vary less than requests do, by the requests in a window.
    seen = queue.count * ((queue.length - state.length) / length) ** 2
    bounded = min(VARIATIONS[1], seen)
    variation = state.variation + weight * (bounded - state.variation)
    return replace(state, length=length, variation=max(VARIATIONS[0], variation))


def _learn_steps(case: Case, state: TierState) -> TierState:
    view = case.view
    mean, load = view.signals.mean, view.signals.load.value
    if mean is None or load is None or view.ready == 0 or view.signals.samples < 1:
        return state
    return replace(state, steps=state.steps.seen(load / view.ready, mean))


def work(case: Case, state: TierState) -> float | None:
    """Seconds of work per unit of load; None until enough was seen."""
    return state.work if state.evidence >= case.policy.least_evidence else None


def _learn_bearing(case: Case, state: TierState) -> TierState:
    view, signals = case.view, case.view.signals
    load = signals.load.value
    if load is None or signals.latency.value is None or view.ready == 0 or load <= 0:
        return state
    per_replica = load / view.ready
    if case.miss.ratio > 1:
        if signals.samples < case.policy.min_samples or signals.draining:
            return state
        if state.breached is None or per_replica < state.breached.load:
            return replace(state, breached=Peak(per_replica, case.now))
        return state
    # More was borne than once seemed too much: that was something else.
    if state.breached is not None and per_replica >= state.breached.load:
        state = replace(state, breached=None)
    if state.proven is None or per_replica >= state.proven.load:
        state = replace(state, proven=Peak(per_replica, case.now))
    return state


def capacity(case: Case, state: TierState) -> float | None:
    """Load per replica to plan for; None until the target was once missed."""
    if state.breached is None:
        return None
    proven = state.proven.load if state.proven is not None else 0.0
    return max(case.policy.headroom * state.breached.load, min(proven, state.breached.load))


def recommend(case: Case, state: TierState, replicas: int) -> TierState:
    """The state with the replicas noted that the present evidence asks for."""
    now = case.now
    start = now - case.policy.stabilization
    kept = [(time, old) for time, old in state.recommendations if time >= start and old > replicas]
    since = state.evidence_since if state.evidence_since is not None else now
    return replace(state, recommendations=(*kept, (now, replicas)), evidence_since=since)


def most(case: Case, state: TierState) -> tuple[int, float]:
    """The most that was asked for in the stabilization window; seconds missing to a full one."""
    since = case.now if state.evidence_since is None else state.evidence_since
    asked = max((replicas for _, replicas in state.recommendations), default=0)
    return asked, case.policy.stabilization - (case.now - since)


def forget_evidence(state: TierState) -> TierState:
    """The state after a gap in what is known: growing less must be earned anew."""
    return replace(state, evidence_since=None, recommendations=())


def _believed(peak: Peak | None, case: Case) -> Peak | None:
    return peak if peak is not None and case.now - peak.time <= case.policy.memory else None
