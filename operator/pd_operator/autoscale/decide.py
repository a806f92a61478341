"""The rule: from one observation to the replicas of each tier. Pure and deterministic.

A tier grows at once, to what the load needs by the measured work, or by the ratio of its latency
to the target, at most doubling. It shrinks slowly, when less was enough all through the
stabilization window. What is stale, absent or of other pods than those ready now is no evidence.
"""

import math
from dataclasses import replace

from pd_operator.autoscale import demand, explain, memory
from pd_operator.autoscale.case import DECODE, FIRST_TOKEN, PREFILL, Case
from pd_operator.autoscale.decision import (
    Decision,
    Limit,
    Observation,
    Policy,
    Reason,
    State,
    TierDecision,
    TierPolicy,
    TierState,
)
from pd_operator.autoscale.demand import Need
from pd_operator.autoscale.explain import Outcome
from pd_operator.autoscale.joint import Want, split
from pd_operator.autoscale.window import Freshness


def decide(observation: Observation, policy: Policy, state: State, now: float) -> Decision:
    """Both tiers' replicas at `now`, a monotonic clock's seconds.

    Give `Decision.state` to the next call; after a restart begin with an empty State: nothing
    shrinks then before a whole stabilization window was seen.
    """
    words = FIRST_TOKEN if policy.colocated else PREFILL
    prefill = Case(words, observation.prefill, policy.prefill, policy, now)
    decode = Case(DECODE, observation.decode, policy.decode, policy, now)
    prefill_decision, prefill_state = _tier(prefill, state.prefill)
    decode_decision, decode_state = _tier(decode, state.decode)
    both = State(prefill_state, decode_state)
    if not policy.colocated:
        return _within_budget(
            Decision(prefill_decision, decode_decision, both), observation, policy, state
        )
    together = _together(((decode, decode_decision), (prefill, prefill_decision)))
    changed_at = state.decode.changed_at if together.desired == together.current else now
    # What one of the two would have changed alone was not changed.
    both = State(
        replace(prefill_state, changed_at=changed_at), replace(decode_state, changed_at=changed_at)
    )
    return Decision(prefill_decision, together, both)


def _within_budget(
    decision: Decision, observation: Observation, policy: Policy, before: State
) -> Decision:
    """The decision with no more pods of both tiers than the budget."""
    if policy.budget is None:
        return decision
    tiers = (decision.prefill, decision.decode)
    views = (observation.prefill, observation.decode)
    least = (policy.prefill.min, policy.decode.min)
    wants = [Want(tier.current, tier.desired, low) for tier, low in zip(tiers, least, strict=True)]
    free = policy.budget - sum(view.draining for view in views)
    pods = split(wants[0], wants[1], free)
    both = decision.state
    prefill, decode = (
        _bound(tier, number, policy.budget) for tier, number in zip(tiers, pods, strict=True)
    )
    return Decision(
        prefill,
        decode,
        State(
            _unchanged(both.prefill, before.prefill, prefill),
            _unchanged(both.decode, before.decode, decode),
        ),
    )


def _bound(tier: TierDecision, pods: int, budget: int) -> TierDecision:
    if pods == tier.desired:
        return tier
    return replace(
        tier,
        desired=pods,
        unbounded=max(tier.unbounded, tier.desired),
        reason=Reason.AT_BUDGET,
        limit=Limit.BUDGET,
        message=f"{tier.message}; {pods} by the budget of {budget} for both tiers",
    )


def _unchanged(state: TierState, before: TierState, tier: TierDecision) -> TierState:
    if tier.limit is Limit.BUDGET and tier.desired == tier.current:
        return replace(state, changed_at=before.changed_at)
    return state


def _together(sides: tuple[tuple[Case, TierDecision], ...]) -> TierDecision:
    """One tier's decision by two targets: the larger; one that tells nothing does not hold it."""
    telling = [d for case, d in sides if d.desired > case.view.current or not _silent(case)]
    decisions = telling or [decision for _, decision in sides]
    return max(decisions, key=lambda decision: (decision.desired, decision.unbounded))


def _silent(case: Case) -> bool:
    """Whether a latency has no target, or was not measured: only streams have a first token."""
    latency = case.view.signals.latency
    unmeasured = latency.value is None and latency.freshness is Freshness.FRESH
    return case.tier.target is None or (unmeasured and not case.idle)


def _tier(case: Case, state: TierState) -> tuple[TierDecision, TierState]:
    outcome, state = _outcome(case, memory.observe(case, state))
    outcome = _bounded(outcome, case.tier)
    if outcome.desired != case.view.current:
        state = replace(state, changed_at=case.now)
    decision = TierDecision(
        current=case.view.current,
        desired=outcome.desired,
        unbounded=outcome.unbounded,
        reason=outcome.reason,
        limit=outcome.limit,
        message=explain.message(case, outcome),
        inputs=explain.inputs(case),
    )
    return decision, state


def _bounded(outcome: Outcome, tier: TierPolicy) -> Outcome:
    """Within the bounds, which hold whatever is or is not known."""
    if outcome.desired > tier.max:
        return replace(outcome, desired=tier.max, reason=Reason.AT_MAX, limit=Limit.MAX)
    if outcome.desired < tier.min:
        return replace(outcome, desired=tier.min, reason=Reason.AT_MIN, limit=Limit.MIN)
    return outcome


def _outcome(case: Case, state: TierState) -> tuple[Outcome, TierState]:
    held = _hold(case)
    if held is not None:
        return held, memory.forget_evidence(state)
    # Latencies tell of the pods ready now only when none has come lately and none is to come.
    fresh = memory.coming(case, state) == 0 and memory.unsettled(case, state) <= 0
    need = demand.need(case, state)
    # What this moment teaches counts from the next one: so more demand never asks for less.
    settled = memory.unsettled(case, state) <= 0
    learned = memory.learn(case, state) if settled else state
    if need.most > case.view.current:
        outcome = _grow(case, state, need, fresh)
        return outcome, memory.recommend(case, learned, need.most)
    enough = demand.enough(case, state) if fresh else None
    lower = case.view.current if enough is None else max(enough, need.most)
    learned = memory.recommend(case, learned, lower)
    return _shrink(case, learned, min(lower, case.view.current), need), learned


def _hold(case: Case) -> Outcome | None:
    """Why there is no evidence at all, if so."""
    view, signals = case.view, case.view.signals
    trust = (signals.load.freshness, signals.latency.freshness)
    if case.tier.target is None:
        reason = Reason.NO_TARGET
    elif Freshness.STALE in trust:
        reason = Reason.STALE_METRICS
    elif Freshness.ABSENT in trust or signals.load.value is None:
        reason = Reason.NO_METRICS
    elif view.ready == 0:
        reason = Reason.NOT_READY
    else:
        return None
    return Outcome(view.current, view.current, reason, Limit.HOLD)


def _grow(case: Case, state: TierState, need: Need, fresh: bool) -> Outcome:
    """`fresh` where the latencies are of the pods that are ready now."""
    view = case.view
    if view.current >= case.tier.max:
        return Outcome(view.current, need.most, Reason.AT_MAX, Limit.MAX)
    # Latencies of a backlog are of the past; the load is of now, whichever pods answer it.
    by_latency = need.by_latency if fresh and not view.signals.draining else 0
    desired = max(
        need.by_load,
        min(by_latency, _at_most(case.policy, view.ready)),
    )
    if desired > view.current:
        reason = need.reason if by_latency > 0 else Reason.LOAD_ABOVE_CAPACITY
        limit = Limit.FACTOR if desired < max(need.by_load, by_latency) else Limit.NONE
        return Outcome(desired, need.most if limit is Limit.FACTOR else desired, reason, limit)
    wait = 0.0
    if view.ready < view.current:
        reason = Reason.NOT_READY
    elif not fresh:
        reason, wait = Reason.COOLDOWN, memory.unsettled(case, state)
    else:
        reason = Reason.BACKLOG_DRAINING
    return Outcome(view.current, need.most, reason, Limit.HOLD, wait)


def _at_most(policy: Policy, replicas: int) -> int:
    return max(replicas + 1, math.floor(policy.max_factor * replicas))


def _shrink(case: Case, state: TierState, lower: int, need: Need) -> Outcome:
    current, low = case.view.current, case.tier.min
    if max(lower, low) >= current:
        if case.view.ready < current:
            reason = Reason.NOT_READY
        elif case.idle:
            reason = Reason.NO_TRAFFIC
        elif need.futile:
            reason = Reason.TARGET_UNATTAINABLE
        else:
            reason = Reason.AT_MIN if lower < current else Reason.STEADY
        return Outcome(current, lower, reason, Limit.MIN if lower < current else Limit.NONE)
    asked, missing = memory.most(case, state)
    most = max(asked, lower, low)
    if missing > 0 or most >= current:
        wait = missing if missing > 0 else case.policy.stabilization
        return Outcome(current, lower, Reason.STABILIZATION_WINDOW, Limit.STABILIZATION, wait)
    wait = 0.0 if state.changed_at is None else state.changed_at + case.policy.window - case.now
    if wait > 0:
        return Outcome(current, lower, Reason.COOLDOWN, Limit.COOLDOWN, wait)
    least = current - max(1, math.floor(case.policy.down_fraction * current))
    desired = max(most, least)
    reason = Reason.NO_TRAFFIC if case.idle else Reason.LOAD_BELOW_CAPACITY
    if desired == lower:
        return Outcome(desired, lower, reason, Limit.NONE)
    if most < least:
        return Outcome(desired, lower, reason, Limit.STEP)
    limit = Limit.MIN if most == low else Limit.STABILIZATION
    return Outcome(desired, lower, reason, limit)
