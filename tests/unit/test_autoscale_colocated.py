"""One tier that does both: as many as the more demanding of both targets asks for."""

from dataclasses import replace

import pytest

from pd_operator.api.autoscaling import Mode
from pd_operator.autoscale.decide import decide
from pd_operator.autoscale.decision import (
    Decision,
    Observation,
    Policy,
    Reason,
    Signal,
    State,
    TierPolicy,
    TierSignals,
    TierView,
)
from pd_operator.autoscale.track import Fleet, TierFleet, Track
from pd_operator.autoscale.window import Freshness

BOUNDS = TierPolicy(1.0, 1, 8)
POLICY = Policy(Mode.AUTO, BOUNDS, BOUNDS, colocated=True)


def seen(latency: float | None, load: float = 100.0) -> TierSignals:
    fresh = Freshness.FRESH
    return TierSignals(Signal(load, fresh), Signal(latency, fresh), 50.0, Signal(3.0, fresh))


def look(
    ttft: TierSignals,
    tpot: TierSignals,
    policy: Policy = POLICY,
    state: State | None = None,
    now: float = 1000.0,
    current: int = 2,
) -> Decision:
    views = (TierView(current, current, ttft), TierView(current, current, tpot))
    return decide(Observation(*views), policy, state or State(), now)


@pytest.mark.parametrize(
    ("ttft", "tpot", "desired", "reason"),
    [
        (0.5, 0.5, 2, Reason.STEADY),
        (1.9, 0.5, 4, Reason.TTFT_ABOVE_TARGET),
        (0.5, 1.4, 3, Reason.TPOT_ABOVE_TARGET),
        (1.9, 1.4, 4, Reason.TTFT_ABOVE_TARGET),
        (1.4, 1.9, 4, Reason.TPOT_ABOVE_TARGET),
    ],
)
def test_the_larger_wins(ttft: float, tpot: float, desired: int, reason: Reason) -> None:
    decision = look(seen(ttft), seen(tpot)).decode
    assert (decision.desired, decision.reason) == (desired, reason)


def test_words_are_of_decoders_alone() -> None:
    message = look(seen(1.9), seen(0.5)).decode.message
    assert "decoders" in message
    assert "prefillers" not in message


def test_the_bounds_hold() -> None:
    policy = replace(POLICY, prefill=TierPolicy(1.0, 1, 3), decode=TierPolicy(1.0, 1, 3))
    assert look(seen(4.0), seen(4.0), policy).decode.desired == 3


def last(ttft: TierSignals, tpot: TierSignals, policy: Policy = POLICY) -> int:
    """Replicas after twice the stabilization window of one and the same, from 4 on."""
    state, current = State(), 4
    for step in range(int(2 * POLICY.stabilization / 15)):
        decision = look(ttft, tpot, policy, state, 1000.0 + 15 * step, current)
        state, current = decision.state, decision.decode.desired
    return current


def test_it_shrinks_only_where_both_allow_it() -> None:
    assert last(seen(0.1), seen(0.1)) < 4
    assert last(seen(0.1), seen(0.9)) == 4
    assert last(seen(0.9), seen(0.1)) == 4


@pytest.mark.parametrize("side", ["prefill", "decode"])
def test_a_latency_without_target_does_not_hold_the_other(side: str) -> None:
    policy = replace(POLICY, **{side: TierPolicy(None, 1, 8)})  # type: ignore[arg-type]
    assert last(seen(0.1), seen(0.1), policy) < 4


def test_no_stream_means_no_time_to_first_token_and_does_not_hold_it() -> None:
    assert last(seen(None), seen(0.1)) < 4


def test_stale_numbers_hold_it() -> None:
    stale = TierSignals(Signal(1.0, Freshness.STALE), Signal(0.1, Freshness.STALE))
    assert last(stale, seen(0.1)) == 4


def test_without_any_target_it_stays() -> None:
    none = TierPolicy(None, 1, 8)
    decision = look(seen(9.0), seen(9.0), replace(POLICY, prefill=none, decode=none)).decode
    assert (decision.desired, decision.reason) == (2, Reason.NO_TARGET)


def test_nothing_learned_in_one_mode_is_used_in_the_other() -> None:
    tier = TierFleet(wanted=1, applied=2, ready=2)
    fleet = Fleet(frozenset(), tier, tier)
    apart = Track().decided(fleet, replace(POLICY, colocated=False), 15.0, 1000.0)
    assert apart.commanded == (2, 2)
    more = replace(fleet, decode=replace(tier, applied=5), prefill=replace(tier, applied=5))
    together = apart.decided(more, POLICY, 15.0, 1015.0)
    assert together.colocated
    assert together.commanded == (5, 5)
    assert together.state.decode.settled_at is None
