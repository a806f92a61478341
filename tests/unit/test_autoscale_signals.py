import pytest

from pd_operator.autoscale import signals
from pd_operator.autoscale.exposition import Histogram
from pd_operator.autoscale.sample import ProxySample
from pd_operator.autoscale.window import Freshness, History, Range

WINDOW = Range(0, 60, 45)
NONE = Histogram((1.0, 10.0), (0, 0, 0))


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
            ttft=Histogram((1.0, 10.0), (10, 10, 10)),
            prefill=Histogram((1.0, 10.0), (0, 20, 20)),
        ),
        step=60,
    )
    seen = signals.prefill(one, ("a",), WINDOW)
    assert seen.load.value == pytest.approx(100)
    assert seen.latency.value == pytest.approx(9.55)
    assert (seen.samples, seen.in_flight.value, seen.draining) == (20, 1, False)
    assert seen.latency.freshness is seen.load.freshness is Freshness.FRESH


def test_requests_that_nobody_answers_show_how_long_they_wait() -> None:
    stuck = ProxySample(offered=9, prompt_tokens=900, in_flight_prefill=5, ttft=NONE, prefill=NONE)
    seen = signals.prefill(history(*[stuck] * 5), ("a",), WINDOW)
    assert (seen.latency.value, seen.samples) == (60, 5)
    idle = ProxySample(offered=9, prompt_tokens=900, in_flight_prefill=0, ttft=NONE, prefill=NONE)
    assert signals.prefill(history(*[idle] * 5), ("a",), WINDOW).latency.value is None


def test_a_backlog_drains_where_more_is_answered_than_comes() -> None:
    def at(came: float, answered: float) -> ProxySample:
        return ProxySample(offered=came, prefill=Histogram((1.0,), (0, answered)))

    assert signals.prefill(history(at(0, 0), at(10, 20), step=60), ("a",), WINDOW).draining
    assert not signals.prefill(history(at(0, 0), at(20, 20), step=60), ("a",), WINDOW).draining


def test_decode_is_the_average_in_flight_and_the_time_per_token() -> None:
    one = history(
        *(
            ProxySample(in_flight_decode=4, tpot=Histogram((0.05, 0.1), (0, count, count)))
            for count in (0, 1, 2, 3, 4)
        )
    )
    seen = signals.decode(one, ("a", "b"), WINDOW)
    assert seen.load.value == pytest.approx(4)
    assert seen.load.freshness is Freshness.PARTIAL
    assert seen.latency.value == pytest.approx(0.0975)
    assert seen.samples == pytest.approx(4)


def test_nothing_is_known_without_samples() -> None:
    for seen in (
        signals.prefill(History(), (), WINDOW),
        signals.decode(History(), ("a",), WINDOW),
    ):
        assert seen.load.value is None
        assert seen.load.freshness is seen.latency.freshness is Freshness.ABSENT
