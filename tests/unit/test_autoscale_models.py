import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pd_operator.autoscale.decode_model import Line, Steps
from pd_operator.autoscale.forecast import KEEP_SECONDS, Past
from pd_operator.autoscale.prefill_model import (
    Demand,
    Prompts,
    attained,
    erlangs_of,
    needed,
    possible,
)
from pd_operator.autoscale.queueing import useful

PROMPTS = Prompts(service=0.25, variation=1.0, slack=2.0)
LOADS = st.tuples(st.floats(0, 200), st.floats(0, 200)).map(sorted)


def test_useful_is_at_least_two() -> None:
    assert (useful(0.0), useful(0.01), useful(4.0)) == (2, 2, 10)


def test_all_is_attained_where_nobody_waits_and_nothing_where_the_load_is_more() -> None:
    assert attained(10, 0.0, PROMPTS) == possible(PROMPTS) == pytest.approx(1.0)
    assert attained(5, 5.0, PROMPTS) == 0.0
    assert attained(100, 5.0, PROMPTS) == pytest.approx(1.0, abs=1e-3)


def test_prompts_that_take_longer_than_the_target_cannot_be_attained() -> None:
    long = Prompts(service=1.1, variation=4.0, slack=2.0)
    assert 0.6 < possible(long) < 0.95
    # More replicas do not bring them back, so no more are asked for than the others need.
    assert 6 < needed([Demand(4.0, 1.0)], long, 0.97) < 40


def test_a_burst_that_came_before_needs_replicas_beyond_the_present_load() -> None:
    calm = needed([Demand(2.0, 1.0)], PROMPTS, 0.97)
    bursty = needed([Demand(2.0, 0.5), Demand(10.0, 0.5)], PROMPTS, 0.97)
    rare = needed([Demand(2.0, 0.999), Demand(10.0, 0.001)], PROMPTS, 0.97)
    assert rare == calm < 10 < bursty


@given(LOADS, st.floats(0.001, 10), st.floats(0.1, 10), st.floats(0.25, 8))
def test_more_load_needs_no_fewer_replicas(
    loads: list[float], service: float, slack: float, variation: float
) -> None:
    prompts = Prompts(service, variation, slack)
    low, high = (needed([Demand(load, 1.0)], prompts, 0.97) for load in loads)
    assert low <= high


@given(st.integers(1, 60), st.floats(0, 1e6), st.floats(0.25, 8))
def test_no_more_load_than_replicas_is_ever_seen(
    replicas: int, busy: float, variation: float
) -> None:
    assert 0 <= erlangs_of(busy, replicas, variation) <= min(busy, replicas)


def test_an_idle_tier_is_busy_as_much_as_it_works_and_a_full_one_wholly() -> None:
    assert erlangs_of(0.2, 10, 1.0) == pytest.approx(0.2, rel=0.05)
    assert erlangs_of(1000.0, 10, 1.0) == pytest.approx(10, rel=0.02)


def observed(base: float, slope: float, batches: list[float]) -> Line:
    steps = Steps()
    for batch in batches * 40:
        steps = steps.seen(batch, base + slope * batch)
    line = steps.line()
    assert line is not None
    return line


def test_the_line_of_a_decode_step_is_found() -> None:
    line = observed(0.014, 0.0002, [5, 20, 80])
    assert line.step(100) == pytest.approx(0.034, rel=0.05)
    assert Steps().seen(3, 0.02).line() is None


def test_one_mad_sample_moves_the_line_little() -> None:
    steps = Steps()
    for batch in [5.0, 20.0, 80.0] * 20:
        steps = steps.seen(batch, 0.014 + 0.0002 * batch)
    mad = steps.seen(40.0, 1e6).line()
    assert mad is not None
    assert mad.step(40) < 1.2 * (0.014 + 0.0002 * 40)


def test_decoders_are_as_many_as_keep_the_step_within_the_target() -> None:
    line = Line(0.014, 0.0002)
    assert line.needed(0.0, 0.05) == 1
    count = line.needed(20_000, 0.05)
    assert count is not None
    batch = 20_000 * 0.05 / count
    assert line.step(batch) <= 0.05 < 1.6 * line.step(batch)
    assert line.needed(100, 0.014) is None


@given(LOADS)
def test_more_tokens_need_no_fewer_decoders(loads: list[float]) -> None:
    low, high = (Line(0.014, 0.0002).needed(100 * load, 0.05) or 0 for load in loads)
    assert low <= high


def past(loads: list[float], step: float = 30.0) -> Past:
    seen = Past()
    for index, load in enumerate(loads):
        seen = seen.seen(step * index, load)
    return seen


def test_a_flat_past_expects_what_is_now() -> None:
    ahead = past([5.0] * 60).ahead(7.0, 120.0)
    assert [load for load, _ in ahead] == pytest.approx([7.0] * len(ahead))
    assert sum(weight for _, weight in ahead) == pytest.approx(1.0)


def test_a_past_with_bursts_expects_one_and_a_rise_expects_more() -> None:
    bursty = past(([0.0] * 8 + [10.0] * 2) * 6).ahead(0.0, 120.0)
    assert sum(weight for load, weight in bursty if load > 5) > 0.5
    # A burst is over before a pod would be ready: none comes on top of it.
    on_top = past(([0.0] * 8 + [10.0] * 2) * 6).ahead(10.0, 120.0)
    assert max(load for load, _ in on_top) < 15
    rising = past([float(i) for i in range(60)]).ahead(59.0, 120.0)
    assert min(load for load, _ in rising[1:]) == pytest.approx(63.0, rel=0.02)


def test_little_past_and_a_clock_that_went_back_expect_only_what_is_now() -> None:
    assert Past().ahead(3.0, 60.0) == ((3.0, 1.0),)
    assert past([1.0, 2.0, 3.0]).seen(10.0, 9.0).points[-1][0] <= 10.0


@given(st.lists(st.floats(0, 1e6), max_size=300), LOADS)
def test_the_past_is_bounded_and_more_now_never_expects_less(
    loads: list[float], now: list[float]
) -> None:
    seen = past(loads)
    assert len(seen.points) <= KEEP_SECONDS / 30 + 1
    low, high = (seen.ahead(load, 120.0) for load in now)
    assert all(
        a <= b and math.isfinite(b)
        for (a, _), (b, _) in zip(sorted(low), sorted(high), strict=True)
    )
