from dataclasses import replace

from pd_operator.autoscale.decision import Decision, Limit, Reason, State, TierDecision
from pd_operator.autoscale.proof import Proof
from pd_operator.autoscale.publish import CALM_SECONDS, Shown, show
from pd_operator.autoscale.track import Traffic

QUIET = Traffic(Proof(0, 0, 0, 0, 0), None, None, 0, fresh=True)


def tier(desired: int, reason: Reason = Reason.STEADY, message: str = "") -> TierDecision:
    return TierDecision(1, desired, desired, reason, Limit.NONE, message)


def decision(prefill: TierDecision) -> Decision:
    return Decision(prefill, tier(1), State())


def shown_prefill(shown: Shown) -> TierDecision | None:
    return shown.prefill.decision if shown.prefill else None


def test_other_numbers_alone_are_not_shown() -> None:
    first = show(None, decision(tier(1, message="a")), QUIET, 0)
    assert show(first, decision(tier(1, message="b")), QUIET, 10_000) == first


def test_other_replicas_are_shown_at_once_and_their_reason_stays_readable() -> None:
    first = show(None, decision(tier(1)), QUIET, 0)
    grown = tier(2, Reason.TTFT_ABOVE_TARGET)
    second = show(first, decision(grown), QUIET, 1)
    assert shown_prefill(second) == grown
    waiting = decision(tier(2, Reason.NOT_READY))
    assert show(second, waiting, QUIET, 1 + CALM_SECONDS / 2) == second
    later = show(second, waiting, QUIET, 1 + CALM_SECONDS)
    assert shown_prefill(later) == waiting.prefill


def test_nothing_is_decided_where_autoscaling_is_off() -> None:
    first = show(None, decision(tier(1)), QUIET, 0)
    assert show(first, None, QUIET, 1).prefill is None


def test_traffic_is_renewed_at_most_once_a_minute_and_only_while_there_is_some() -> None:
    def at(before: Shown | None, traffic: Traffic, now: float) -> Shown:
        return show(before, None, traffic, now)

    first = at(None, QUIET, 0)
    assert at(first, QUIET, 1000) is not first
    assert at(first, QUIET, 1000) == first
    some = replace(QUIET, requests=1)
    second = at(first, some, 1)
    assert second.traffic == some
    more = replace(QUIET, requests=9)
    assert at(second, more, 30) == second
    assert at(second, more, 61).traffic == more
    assert at(second, QUIET, 61).traffic == QUIET
    settled = replace(more, proof=Proof(9, 9, 0, 9, 9))
    assert at(second, settled, 30).traffic == settled
