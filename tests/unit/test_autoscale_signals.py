from dataclasses import replace

import pytest

from pd_operator.autoscale import signals
from pd_operator.autoscale.exposition import Histogram
from pd_operator.autoscale.sample import ProxySample
from pd_operator.autoscale.window import Freshness, History, Range

WINDOW = Range(0, 60, 45, frozenset({"a"}))
NONE = Histogram((1.0, 10.0), (0, 0, 0), 0)


def history(*samples: ProxySample, uid: str = "a", step: float = 15) -> History:
    result = History()
    for index, sample in enumerate(samples):
        result = result.record(uid, index * step, sample, keep=1000)
    return result


def test_prefill_takes_the_longer_of_first_token_and_prefill_answer() -> None:
    one = history(
        ProxySample(offered=0, prompt_tokens=0, in_flight_prefill=0, ttft=NONE, prefill=NONE),
        ProxySample(
            offered=20,
            prompt_tokens=6000,
            in_flight_prefill=1,
            ttft=Histogram((1.0, 10.0), (10, 10, 10), 5),
            prefill=Histogram((1.0, 10.0), (0, 20, 20), 60),
        ),
        step=60,
    )
    seen = signals.prefill(one, WINDOW)
    assert seen.load.value == pytest.approx(100)
    assert seen.latency.value == pytest.approx(9.55)
    assert (seen.samples, seen.in_flight.value, seen.draining) == (20, 1, False)
    assert seen.latency.freshness is seen.load.freshness is Freshness.FRESH


def test_requests_that_nobody_answers_show_how_long_they_wait() -> None:
    stuck = ProxySample(offered=9, prompt_tokens=900, in_flight_prefill=5, ttft=NONE, prefill=NONE)
    seen = signals.prefill(history(*[stuck] * 5), WINDOW)
    assert (seen.latency.value, seen.samples) == (60, 5)
    idle = ProxySample(offered=9, prompt_tokens=900, in_flight_prefill=0, ttft=NONE, prefill=NONE)
    assert signals.prefill(history(*[idle] * 5), WINDOW).latency.value is None


def test_a_backlog_drains_where_more_is_answered_than_comes() -> None:
    def at(came: float, answered: float) -> ProxySample:
        return ProxySample(offered=came, prefill=Histogram((1.0,), (0, answered), answered))

    assert signals.prefill(history(at(0, 0), at(10, 20), step=60), WINDOW).draining
    assert not signals.prefill(history(at(0, 0), at(20, 20), step=60), WINDOW).draining


def test_decode_is_the_average_in_flight_and_the_time_per_token() -> None:
    one = history(
        *(
            ProxySample(
                in_flight_decode=4, tpot=Histogram((0.05, 0.1), (0, count, count), count / 20)
            )
            for count in (0, 1, 2, 3, 4)
        )
    )
    seen = signals.decode(one, replace(WINDOW, proxies=frozenset({"a", "b"})))
    assert seen.load.value == pytest.approx(4)
    assert seen.load.freshness is Freshness.PARTIAL
    assert seen.latency.value == pytest.approx(0.0975)
    assert seen.samples == pytest.approx(4)


def test_nothing_is_known_without_samples() -> None:
    for seen in (
        signals.prefill(History(), replace(WINDOW, proxies=frozenset())),
        signals.decode(History(), WINDOW),
    ):
        assert seen.load.value is None
        assert seen.load.freshness is seen.latency.freshness is Freshness.ABSENT


def test_the_queue_is_told_by_the_time_spent_in_it() -> None:
    def at(count: float) -> ProxySample:
        return ProxySample(
            offered=count,
            prompt_tokens=100 * count,
            prefill=Histogram((1.0, 10.0), (0, count, count), 3 * count),
        )

    seen = signals.prefill(history(at(0), at(60), step=60), WINDOW).queue
    assert seen is not None
    assert (seen.busy, seen.served, seen.requests, seen.count) == (3, 100, 1, 60)
    assert signals.prefill(history(at(0), at(0), step=60), WINDOW).queue is None


def test_the_load_before_is_told_only_of_a_whole_window() -> None:
    rising = history(*(ProxySample(offered=t * t, prompt_tokens=t) for t in range(0, 121, 15)))
    later = replace(WINDOW, start=60, end=120)
    assert signals.prefill(rising, later).before == pytest.approx(60)
    assert signals.prefill(rising, WINDOW).before is None


def test_what_waits_for_room_at_a_decoder_is_no_load_but_a_late_first_token() -> None:
    def at(count: float) -> ProxySample:
        return ProxySample(
            completion_tokens=100 * count,
            in_flight_decode=50,
            tpot=Histogram((0.1,), (count, count), 0.05 * count),
            ttft=Histogram((1.0, 10.0), (0, count, count), 5 * count),
            prefill=Histogram((1.0, 10.0), (count, count, count), count),
        )

    seen = signals.decode(history(at(0), at(60), step=60), WINDOW)
    assert seen.load.value == pytest.approx(100 * 0.05)
    assert seen.handoff == pytest.approx(4.0)
    assert not seen.draining


def test_decoders_drain_where_clearly_fewer_are_in_flight() -> None:
    falling = history(*(ProxySample(in_flight_decode=n) for n in (90, 80, 70, 60, 20)))
    assert signals.decode(falling, WINDOW).draining
    wobbling = history(*(ProxySample(in_flight_decode=n) for n in (5, 3, 4, 5, 2)))
    assert not signals.decode(wobbling, WINDOW).draining


def test_the_load_is_of_what_arrived_though_the_tokens_are_told_with_the_answers() -> None:
    def at(time: float, answered: float) -> ProxySample:
        return ProxySample(
            offered=20 * time,
            refused=10 * time,
            ended=answered,
            prompt_tokens=200 * answered,
            prefill=Histogram((1.0,), (answered, answered), answered),
        )

    one = history(at(0, 0), at(60, 120), step=60)
    assert signals.prefill(one, WINDOW).load.value == pytest.approx(10 * 200)
