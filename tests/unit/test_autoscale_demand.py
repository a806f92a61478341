from dataclasses import replace

from pd_operator.api.autoscaling import AutoscalingSpec, Mode
from pd_operator.autoscale.decide import decide
from pd_operator.autoscale.decision import (
    Decision,
    Observation,
    Policy,
    Queue,
    Reason,
    Signal,
    State,
    TierPolicy,
    TierSignals,
    TierState,
    TierView,
)
from pd_operator.autoscale.policy import policy_of
from pd_operator.autoscale.window import Freshness

POLICY = Policy(Mode.AUTO, TierPolicy(2.0, 1, 64), TierPolicy(0.05, 1, 64, handoff_target=2.0))
KNOWN = TierState(target=2.0, work=5e-5, evidence=1000.0)
IDLE = TierView(1, 1)


def fresh(value: float | None) -> Signal:
    return Signal(value, Freshness.FRESH)


def prefill(
    load: float, latency: float = 0.5, busy: float = 1.0, before: float | None = None
) -> TierSignals:
    """Prompts of 1000 tokens, 50 ms of work each where the work is known."""
    queue = Queue(busy, load, load / 1000, load / 1000 * 60)
    return TierSignals(fresh(load), fresh(latency), 100, fresh(busy), queue=queue, before=before)


def of(
    view: TierView, state: TierState = KNOWN, now: float = 0.0, policy: Policy = POLICY
) -> Decision:
    return decide(Observation(view, IDLE), policy, State(prefill=state), now)


def test_the_work_of_a_replica_is_learned_and_sizes_the_tier_before_the_target_is_missed() -> None:
    state, view = TierState(), TierView(2, 2, prefill(20_000, busy=1.02))
    for step in range(20):
        state = of(view, state, 15.0 * step).state.prefill
    assert state.work is not None
    # 1.02 requests in a tier of two are 0.8 that are served and the rest that waits.
    assert 3.6e-5 < state.work < 4.1e-5
    decision = of(replace(view, signals=prefill(75_000)), state, 300.0).prefill
    # Nearly three erlangs, and some for another such jump.
    assert (decision.desired, decision.reason) == (5, Reason.LOAD_ABOVE_CAPACITY)


def test_an_odd_window_moves_the_estimate_little() -> None:
    odd = of(TierView(4, 4, prefill(20_000, busy=500.0))).state.prefill
    assert odd.work is not None
    assert odd.work <= 5e-5 * 1.2


def test_an_estimate_of_few_requests_is_not_used() -> None:
    view = TierView(1, 1, prefill(40_000))
    assert of(view, replace(KNOWN, evidence=19.0)).prefill.desired == 1
    # Two erlangs: two would never be done.
    assert of(view).prefill.desired == 3


def test_a_rise_that_is_no_chance_is_followed_to_when_a_pod_would_be_ready() -> None:
    def desired(before: float, state: TierState = KNOWN) -> int:
        return of(TierView(3, 3, prefill(40_000, before=before)), state).prefill.desired

    assert desired(before=40_000) == desired(before=39_000) == desired(before=90_000) == 3
    assert desired(before=12_000) > desired(before=12_000, state=replace(KNOWN, start=0.0)) >= 3


def test_replicas_that_cannot_help_are_not_asked_for() -> None:
    view = TierView(4, 4, prefill(20_000, latency=9.0))
    assert of(view).prefill.desired == 4
    decision = of(replace(view, current=5, ready=5)).prefill
    assert (decision.desired, decision.reason) == (5, Reason.STABILIZATION_WINDOW)
    decision = of(replace(view, current=2, ready=2), now=1.0).prefill
    assert decision.reason is Reason.TARGET_UNATTAINABLE
    assert "more prefillers would not help" in decision.message


def test_decoders_without_room_are_to_blame_for_a_late_first_token() -> None:
    full = TierSignals(fresh(30.0), fresh(0.03), 100, fresh(90.0), handoff=3.0)
    seen = Observation(IDLE, TierView(2, 2, full))
    decision = decide(seen, POLICY, State(), 0.0).decode
    assert (decision.desired, decision.reason) == (4, Reason.TTFT_ABOVE_TARGET)
    roomy = replace(seen, decode=TierView(2, 2, replace(full, handoff=0.1)))
    assert decide(roomy, POLICY, State(), 0.0).decode.desired == 2
    untold = replace(POLICY, decode=TierPolicy(0.05, 1, 64))
    assert decide(seen, untold, State(), 0.0).decode.desired == 2


def test_the_policy_of_a_spec() -> None:
    spec = AutoscalingSpec.model_validate(
        {
            "mode": "Advise",
            "slo": {"ttft": "1500ms", "tpot": "50ms"},
            "prefill": {"min": 2, "max": 8},
            "scaleDown": {"stabilizationWindow": "2m"},
        }
    )
    policy = policy_of(spec, 60.0)
    assert policy.mode is Mode.ADVISE
    assert policy.prefill == TierPolicy(1.5, 2, 8)
    assert policy.decode == TierPolicy(0.05, 1, 1, handoff_target=1.5)
    assert (policy.stabilization, policy.window) == (120.0, 60.0)
    assert policy_of(AutoscalingSpec(), 60.0).prefill.target is None
