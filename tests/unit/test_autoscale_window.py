import pytest
from hypothesis import given
from hypothesis import strategies as st

from pd_operator.autoscale.exposition import Histogram
from pd_operator.autoscale.sample import ProxySample
from pd_operator.autoscale.window import (
    Freshness,
    History,
    Range,
    average,
    covered,
    distribution,
    freshness,
    increase,
    latest,
    quantile,
    rate,
)

STALE = 45.0


def span(start: float, end: float, *proxies: str) -> Range:
    return Range(start, end, STALE, frozenset(proxies or ("a", "b")))


def offered(sample: ProxySample) -> float | None:
    return sample.offered


def busy(sample: ProxySample) -> float | None:
    return sample.in_flight_decode


def ttft(sample: ProxySample) -> Histogram | None:
    return sample.ttft


def history(*points: tuple[str, float, ProxySample]) -> History:
    result = History()
    for uid, time, sample in points:
        result = result.record(uid, time, sample, keep=1000)
    return result


def counter(uid: str, *points: tuple[float, float]) -> list[tuple[str, float, ProxySample]]:
    return [(uid, time, ProxySample(offered=value)) for time, value in points]


def test_a_rate_is_the_rise_per_second_of_all_proxies() -> None:
    both = history(*counter("a", (0, 5), (30, 35), (60, 65)), *counter("b", (0, 0), (60, 120)))
    assert rate(both, span(0, 60), offered) == pytest.approx(3.0)


def test_the_rise_begins_within_two_samples() -> None:
    one = history(*counter("a", (0, 0), (40, 40), (80, 80)))
    assert increase(one, span(20, 80), offered) == {"a": pytest.approx(60.0)}


def test_a_restarted_proxy_counts_on_from_zero() -> None:
    one = history(*counter("a", (0, 1000), (20, 1020), (40, 15), (60, 35)))
    assert rate(one, span(0, 60), offered) == pytest.approx(55 / 60)


def test_a_new_proxy_does_not_bring_what_it_counted_before() -> None:
    one = history(*counter("a", (0, 0), (60, 60)), *counter("b", (30, 10_000), (60, 10_030)))
    assert rate(one, span(0, 60), offered) == pytest.approx(1.5)


def test_traffic_that_moves_from_a_vanished_proxy_to_another_is_counted_once() -> None:
    moved = history(
        *counter("gone", *((t, 5.0 * t) for t in range(0, 301, 10))),
        *counter("stays", *((t, 5.0 * t + max(0, t - 300) * 5) for t in range(0, 361, 10))),
    )
    assert rate(moved, span(300, 360, "stays"), offered) == pytest.approx(10.0)
    assert rate(moved, span(270, 330, "stays"), offered) == pytest.approx(10.0)


def test_lost_last_scrapes_do_not_lower_the_rate() -> None:
    lost = history(*counter("a", (0, 0), (30, 30)), *counter("b", (0, 0), (60, 60)))
    assert rate(lost, span(0, 60), offered) == pytest.approx(2.0)


def test_a_bad_sample_between_good_ones_changes_nothing() -> None:
    points = counter("a", (0, 0), (60, 60))
    points.insert(1, ("a", 30, ProxySample(offered=None)))
    assert rate(history(*points), span(0, 60), offered) == pytest.approx(1.0)


def test_one_sample_is_no_rate() -> None:
    assert rate(history(*counter("a", (0, 100))), span(-60, 0), offered) is None
    assert rate(History(), span(-60, 0), offered) is None


def test_time_that_runs_back_is_ignored() -> None:
    one = history(*counter("a", (10, 1), (5, 100), (10, 100), (20, 2)))
    assert one.points("a", offered) == ((10, 1), (20, 2))


def test_old_samples_are_thinned_and_dropped() -> None:
    one = History()
    for second in range(0, 2000, 2):
        one = one.record("a", second, ProxySample(offered=second), keep=330)
    one = one.record("b", 1999, ProxySample(), keep=330)
    times = [time for time, _ in one.points("a", offered)]
    assert 1998 - 330 <= times[0] <= 1998 - 320
    assert len(times) < 100
    assert rate(one, span(1700, 2000), offered) == pytest.approx(1.0)
    assert one.record("b", 9999, ProxySample(), keep=330).pods.keys() == {"b"}


def test_a_gauge_is_averaged_over_time_and_a_vanished_proxys_ends() -> None:
    one = history(
        ("a", 0, ProxySample(in_flight_decode=4)),
        ("a", 30, ProxySample(in_flight_decode=8)),
        ("a", 60, ProxySample(in_flight_decode=2)),
        ("gone", 0, ProxySample(in_flight_decode=10)),
        ("gone", 6, ProxySample(in_flight_decode=10)),
    )
    window = span(0, 60)
    assert average(one, window, busy) == pytest.approx(6 + 1)
    assert latest(one, window, busy) == 2
    assert latest(one, span(100, 200), busy) is None


def test_freshness() -> None:
    one = history(*counter("a", (100, 1)), *counter("b", (10, 1)))

    def of(*proxies: str, now: float = 110) -> Freshness:
        return freshness(one, Range(0, now, STALE, frozenset(proxies)), offered)

    assert of("a") is Freshness.FRESH
    assert of("a", "b") is Freshness.PARTIAL
    assert of("a", "new") is Freshness.PARTIAL
    assert of("b") is Freshness.STALE
    assert of("a", now=200) is Freshness.STALE
    assert of() is Freshness.STALE
    assert freshness(one, span(0, 110, "a"), busy) is Freshness.ABSENT


def test_covered_is_only_what_was_seen() -> None:
    one = history(*counter("a", (100, 1), (120, 2)))
    assert covered(one, span(0, 130)) == (100, 120)
    assert covered(one, span(110, 130)) == (110, 120)
    start, end = covered(History(), span(0, 130))
    assert start == end


def buckets(uid: str, time: float, *counts: float) -> tuple[str, float, ProxySample]:
    return uid, time, ProxySample(ttft=Histogram((0.1, 1.0), counts, sum(counts)))


def test_quantiles_are_of_the_windows_observations_of_all_proxies() -> None:
    one = history(
        buckets("a", 0, 1000, 1000, 1000),
        buckets("a", 60, 1000, 1010, 1010),
        buckets("b", 0, 0, 0, 0),
        buckets("b", 60, 10, 10, 10),
    )
    seen = distribution(one, span(0, 60), ttft)
    assert seen == Histogram((0.1, 1.0), (10, 20, 20), 50)
    assert seen is not None
    assert quantile(seen, 0.25) == pytest.approx(0.05)
    assert quantile(seen, 0.95) == pytest.approx(0.91)


def test_a_restarted_proxys_buckets_count_on() -> None:
    one = history(buckets("a", 0, 5, 9, 9), buckets("a", 30, 0, 3, 3), buckets("a", 60, 1, 4, 4))
    assert distribution(one, span(0, 60), ttft) == Histogram((0.1, 1.0), (1, 4, 4), 9)


def test_other_buckets_are_left_out() -> None:
    other = ("b", 60.0, ProxySample(ttft=Histogram((0.2,), (5, 5), 10)))
    one = history(buckets("a", 0, 0, 0, 0), buckets("a", 60, 1, 2, 2), other)
    assert distribution(one, span(0, 60), ttft) == Histogram((0.1, 1.0), (1, 2, 2), 5)


def test_quantile_bounds() -> None:
    assert quantile(Histogram((0.1, 1.0), (0, 0, 0), 0), 0.95) is None
    assert quantile(Histogram((0.1, 1.0), (0, 0, 5), 5), 0.95) == 1.0


@given(
    st.lists(st.floats(0, 1000), min_size=2, max_size=20),
    st.floats(0, 0.99),
)
def test_any_counter_gives_a_rate_that_is_not_negative(values: list[float], begin: float) -> None:
    one = history(*counter("a", *((10.0 * i, value) for i, value in enumerate(values))))
    end = 10.0 * (len(values) - 1)
    window = span(begin * end, end)
    result = rate(one, window, offered)
    assert result is not None
    assert 0 <= result <= sum(values) / (end - window.start) + 1e-6


@given(st.lists(st.integers(0, 50), min_size=3, max_size=3), st.floats(0.01, 1))
def test_a_higher_quantile_is_not_lower(counts: list[int], q: float) -> None:
    rising = Histogram((0.1, 1.0), (counts[0], counts[0] + counts[1], sum(counts)), 1.0)
    low, high = quantile(rising, q / 2), quantile(rising, q)
    assert (low is None) == (sum(counts) == 0)
    if low is not None and high is not None:
        assert 0 <= low <= high <= 1.0
