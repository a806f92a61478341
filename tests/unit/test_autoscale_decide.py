from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pd_operator.api.autoscaling import Mode
from pd_operator.autoscale.decide import decide
from pd_operator.autoscale.decision import (
    Decision,
    Limit,
    Observation,
    Peak,
    Policy,
    Queue,
    Reason,
    Signal,
    State,
    TierDecision,
    TierPolicy,
    TierSignals,
    TierState,
    TierView,
)
from pd_operator.autoscale.window import Freshness

TARGET = 2.0
POLICY = Policy(
    Mode.AUTO, TierPolicy(TARGET, 1, 16), TierPolicy(TARGET, 1, 16), stabilization=300, window=60
)


def signals(
    load: float | None = 1000.0,
    latency: float | None = 1.0,
    samples: float = 50.0,
    in_flight: float = 3.0,
    draining: bool = False,
    trust: Freshness = Freshness.FRESH,
) -> TierSignals:
    return TierSignals(
        Signal(load, trust), Signal(latency, trust), samples, Signal(in_flight, trust), draining
    )


IDLE = signals(load=0.0, latency=None, samples=0.0, in_flight=0.0)


class Tier:
    """A tier through time: pods become ready only when told."""

    def __init__(
        self,
        current: int,
        ready: int | None = None,
        policy: Policy = POLICY,
        decoders: bool = False,
    ) -> None:
        self.policy = policy
        self.decoders = decoders
        self.state = State()
        self.now = 1000.0
        self.current = current
        self.ready = current if ready is None else ready

    def look(self, seen: TierSignals, after: float = 15.0) -> TierDecision:
        self.now += after
        view = TierView(self.current, self.ready, seen)
        decision = decide(Observation(view, view), self.policy, self.state, self.now)
        self.state = decision.state
        tier = decision.decode if self.decoders else decision.prefill
        self.current = tier.desired
        return tier

    def look_for(self, seconds: float, seen: TierSignals) -> list[TierDecision]:
        decisions = []
        for _ in range(int(seconds / 15)):
            decisions.append(self.look(seen))
            self.ready = min(self.ready, self.current)
        return decisions


def test_a_missed_target_grows_the_tier_by_the_ratio_at_once() -> None:
    decision = Tier(4).look(signals(latency=TARGET * 1.3))
    assert (decision.desired, decision.reason) == (6, Reason.TTFT_ABOVE_TARGET)
    assert "TTFT p95 2.6s above the target 2s" in decision.message
    assert decision.message.endswith("4 -> 6 prefillers")


def test_one_decision_at_most_doubles_and_says_what_it_would_have_been() -> None:
    decision = Tier(3).look(signals(latency=TARGET * 5))
    assert (decision.desired, decision.unbounded, decision.limit) == (6, 15, Limit.FACTOR)


def test_no_more_than_the_maximum() -> None:
    tier = Tier(15)
    assert tier.look(signals(latency=TARGET * 2)).limit is Limit.MAX
    tier.ready = 16
    decision = tier.look(signals(latency=TARGET * 2), after=100)
    assert (decision.desired, decision.reason) == (16, Reason.AT_MAX)
    assert decision.unbounded > 16


def test_pods_that_come_are_waited_for_and_then_the_old_latencies_must_pass() -> None:
    tier = Tier(2)
    late = signals(latency=TARGET * 2)
    assert tier.look(late).desired == 4
    assert tier.look(late).reason is Reason.NOT_READY
    tier.ready = 4
    decision = tier.look(late)
    assert (decision.desired, decision.reason) == (4, Reason.COOLDOWN)
    assert tier.look(late, after=POLICY.window).desired == 8


def test_pods_that_never_come_do_not_freeze_the_tier() -> None:
    tier = Tier(8, ready=2)
    late = signals(latency=TARGET * 2)
    tier.look(late)
    # After the deadline the two that are ready ask for four: eight are more than enough.
    assert tier.look(late, after=POLICY.start_deadline + 1).desired == 8
    decisions = tier.look_for(600, signals(latency=0.1))
    assert decisions[-1].desired < 8


def test_a_load_beyond_the_measured_capacity_grows_the_tier_before_the_target_is_missed() -> None:
    tier = Tier(2, decoders=True)
    assert tier.look(signals(load=2000, latency=TARGET * 1.1)).desired == 3
    # One replica fails at 1000: at most 850 are planned for, also while the third one starts.
    decision = tier.look(signals(load=4000, latency=TARGET * 1.1))
    assert (decision.desired, decision.reason) == (5, Reason.LOAD_ABOVE_CAPACITY)


def test_a_backlog_that_drains_is_no_reason_to_grow() -> None:
    decision = Tier(4).look(signals(latency=TARGET * 3, draining=True))
    assert (decision.desired, decision.reason) == (4, Reason.BACKLOG_DRAINING)


def test_few_requests_are_no_reason_to_grow() -> None:
    decision = Tier(2).look(signals(latency=TARGET * 3, samples=2))
    assert (decision.desired, decision.reason) == (2, Reason.STEADY)


def test_a_tier_shrinks_one_step_after_the_whole_window() -> None:
    tier = Tier(4)
    low = signals(latency=TARGET * 0.2)
    before = tier.look_for(285, low)
    assert {decision.desired for decision in before} == {4}
    assert before[0].reason is Reason.STABILIZATION_WINDOW
    assert "less must be enough for 300s more" in before[0].message
    after = tier.look_for(60, low)
    assert after[-1].desired == 3
    assert Reason.LOAD_BELOW_CAPACITY in {decision.reason for decision in after}


def test_two_steps_down_are_a_cooldown_apart() -> None:
    tier = Tier(4)
    tier.look_for(330, IDLE)
    assert tier.current == 3
    assert tier.look(IDLE).reason is Reason.COOLDOWN
    tier.look_for(180, IDLE)
    assert tier.current == 1
    decision = tier.look(IDLE)
    assert (decision.desired, decision.reason, decision.limit) == (1, Reason.NO_TRAFFIC, Limit.MIN)


def test_one_look_at_more_load_renews_the_stabilization_window() -> None:
    tier = Tier(4)
    tier.look_for(285, signals(latency=TARGET * 0.2))
    tier.look(signals(latency=TARGET * 0.9))
    assert {d.desired for d in tier.look_for(285, signals(latency=TARGET * 0.2))} == {4}


def test_a_tier_does_not_shrink_to_where_it_failed_before() -> None:
    tier = Tier(2, decoders=True)
    tier.look(signals(load=2000, latency=TARGET * 1.1))
    tier.ready = 3
    tier.look_for(600, signals(load=2000, latency=TARGET * 0.2))
    assert tier.current == 3
    tier.look_for(600, signals(load=900, latency=TARGET * 0.2))
    assert tier.current == 2


def test_within_the_target_but_too_close_to_it_nothing_shrinks() -> None:
    tier = Tier(2)
    assert {d.desired for d in tier.look_for(900, signals(latency=TARGET * 0.5))} == {2}


@pytest.mark.parametrize(
    ("seen", "reason"),
    [
        (signals(trust=Freshness.STALE), Reason.STALE_METRICS),
        (signals(load=None, latency=None, trust=Freshness.ABSENT), Reason.NO_METRICS),
        (signals(load=None, latency=None), Reason.NO_METRICS),
        (replace(IDLE, latency=Signal(None, Freshness.STALE)), Reason.STALE_METRICS),
    ],
)
def test_without_fresh_metrics_nothing_changes(seen: TierSignals, reason: Reason) -> None:
    tier = Tier(4)
    decisions = tier.look_for(900, seen)
    assert {(d.desired, d.reason, d.limit) for d in decisions} == {(4, reason, Limit.HOLD)}


def test_a_gap_in_the_metrics_renews_the_stabilization_window() -> None:
    tier = Tier(4)
    tier.look_for(285, IDLE)
    tier.look(signals(trust=Freshness.STALE))
    assert {d.desired for d in tier.look_for(285, IDLE)} == {4}
    tier.look_for(60, IDLE)
    assert tier.current == 3


def test_a_proxy_that_does_not_answer_holds_the_tier_but_lets_it_grow() -> None:
    tier = Tier(4)
    partial = replace(IDLE, load=Signal(0.0, Freshness.PARTIAL))
    assert {d.desired for d in tier.look_for(900, partial)} == {4}
    assert tier.look(signals(latency=TARGET * 1.1, trust=Freshness.PARTIAL)).desired == 5


def test_a_restarted_operator_does_not_shrink_before_it_saw_a_whole_window() -> None:
    tier = Tier(4)
    tier.look_for(285, IDLE)
    tier.state = State()
    assert {d.desired for d in tier.look_for(285, IDLE)} == {4}


def test_no_target_and_no_ready_pod_hold() -> None:
    without = replace(POLICY, prefill=TierPolicy(None, 1, 16))
    decision = Tier(4, policy=without).look(signals(latency=TARGET * 9))
    assert (decision.desired, decision.reason) == (4, Reason.NO_TARGET)
    decision = Tier(4, ready=0).look(signals(latency=TARGET * 9))
    assert (decision.desired, decision.reason) == (4, Reason.NOT_READY)


def test_bounds_hold_without_metrics_too() -> None:
    stale = signals(trust=Freshness.STALE)
    bounded = replace(POLICY, prefill=TierPolicy(TARGET, 3, 5))
    assert Tier(9, policy=bounded).look(stale).desired == 5
    assert Tier(1, policy=bounded).look(stale).desired == 3


def test_a_new_target_forgets_what_the_old_one_taught() -> None:
    tier = Tier(2, decoders=True)
    tier.look(signals(load=2000, latency=TARGET * 1.1))
    assert tier.state.decode.breached is not None
    tier.policy = replace(POLICY, decode=TierPolicy(TARGET * 10, 1, 16))
    tier.ready = 3
    tier.look(signals(load=2000, latency=TARGET))
    assert tier.state.decode.breached is None


def test_every_input_is_in_the_decision() -> None:
    decision = Tier(4).look(signals())
    assert {i.name: i.value for i in decision.inputs} == {
        "load": 1000,
        "latency": 1,
        "target": TARGET,
        "samples": 50,
        "inFlight": 3,
        "ready": 4,
        "current": 4,
    }


def test_decoders_grow_by_tpot() -> None:
    view = TierView(1, 1, signals(load=8, latency=TARGET * 2))
    decision = decide(Observation(TierView(1, 1, IDLE), view), POLICY, State(), 0.0)
    assert (decision.decode.desired, decision.decode.reason) == (2, Reason.TPOT_ABOVE_TARGET)
    assert decision.prefill.desired == 1


TRUST = st.sampled_from(Freshness)
NUMBER = st.one_of(st.none(), st.floats(0, 1e6))
SIGNAL = st.builds(Signal, NUMBER, TRUST)
QUEUE = st.one_of(
    st.none(),
    st.builds(Queue, st.floats(0, 1e3), st.floats(0, 1e5), st.floats(0.01, 1e3), st.floats(0, 1e4)),
)
SIGNALS = st.builds(
    TierSignals,
    SIGNAL,
    SIGNAL,
    st.floats(0, 100),
    SIGNAL,
    st.booleans(),
    queue=QUEUE,
    before=NUMBER,
    handoff=NUMBER,
)
VIEW = st.builds(TierView, st.integers(0, 40), st.integers(0, 40), SIGNALS)
TIME = st.one_of(st.none(), st.floats(0, 5000))
PEAK = st.one_of(st.none(), st.builds(Peak, st.floats(0.001, 1e5), st.floats(0, 5000)))
STATE = st.builds(
    TierState,
    target=st.sampled_from([None, TARGET]),
    ready=st.one_of(st.none(), st.integers(0, 40)),
    settled_at=TIME,
    coming_since=TIME,
    changed_at=TIME,
    evidence_since=TIME,
    recommendations=st.lists(st.tuples(st.floats(0, 5000), st.integers(0, 40)), max_size=4).map(
        lambda points: tuple(sorted(points))
    ),
    breached=PEAK,
    proven=PEAK,
    work=st.one_of(st.none(), st.floats(1e-6, 1.0)),
    evidence=st.floats(0, 100),
)
NOW = st.floats(4000, 6000)


def once(view: TierView, state: TierState, now: float) -> Decision:
    return decide(Observation(view, view), POLICY, State(state, state), now)


@given(VIEW, STATE, NOW)
@settings(max_examples=300)
def test_any_decision_is_within_bounds_and_repeatable(
    view: TierView, state: TierState, now: float
) -> None:
    decision = once(view, state, now)
    assert 1 <= decision.prefill.desired <= 16
    assert 1 <= decision.decode.desired <= 16
    assert decision == once(view, state, now)


@given(VIEW, STATE, NOW)
@settings(max_examples=300)
def test_nothing_that_is_not_fresh_ever_lowers(
    view: TierView, state: TierState, now: float
) -> None:
    seen = view.signals
    if Freshness.FRESH not in (seen.load.freshness, seen.latency.freshness):
        decision = once(view, state, now)
        assert decision.prefill.desired >= min(view.current, 16)
        assert decision.decode.desired >= min(view.current, 16)


@given(
    VIEW,
    STATE,
    NOW,
    st.tuples(st.floats(0, 1e5), st.floats(0, 1e5)).map(sorted),
    st.tuples(st.floats(0, 100), st.floats(0, 100)).map(sorted),
)
@settings(max_examples=500)
def test_more_demand_never_means_fewer_replicas(
    view: TierView, state: TierState, now: float, loads: list[float], latencies: list[float]
) -> None:
    decisions = [
        once(
            replace(
                view,
                signals=replace(
                    view.signals,
                    load=Signal(load, Freshness.FRESH),
                    latency=Signal(latency, Freshness.FRESH),
                    in_flight=Signal(1.0, Freshness.FRESH),
                ),
            ),
            state,
            now,
        )
        for load, latency in zip(loads, latencies, strict=True)
    ]
    low, high = decisions
    assert low.prefill.desired <= high.prefill.desired
    assert low.decode.desired <= high.decode.desired


def test_a_queue_in_which_nothing_was_counted_teaches_nothing() -> None:
    view = TierView(0, 1, replace(signals(), queue=Queue(1.0, 1.0, 1.0, 0.0)))
    decision = once(view, TierState(work=1.0, evidence=0.0), 4000.0)
    assert (decision.state.prefill.work, decision.state.prefill.evidence) == (1.0, 0.0)
