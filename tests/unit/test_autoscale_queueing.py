import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pd_operator.autoscale.queueing import erlangs_of, late, must_wait, needed, useful


def test_erlang_c_is_the_textbooks() -> None:
    assert must_wait(1, 0.5) == pytest.approx(0.5)
    assert must_wait(2, 1.0) == pytest.approx(1 / 3)
    assert must_wait(10, 8.0) == pytest.approx(0.409, abs=0.001)
    assert (must_wait(3, 3.0), must_wait(3, 0.0)) == (1.0, 0.0)


def test_late_falls_with_slack_and_is_all_where_load_exceeds_replicas() -> None:
    assert late(2, 1.0, 1.0, 0.0) == pytest.approx(1 / 3)
    assert late(2, 1.0, 1.0, 3.0) == pytest.approx(math.exp(-2) / 3)
    assert late(2, 2.0, 1.0, 100.0) == 1.0
    assert late(2, 0.0, 0.0, 1.0) == 0.0


def test_needed_is_the_fewest_that_do() -> None:
    count = needed(5.5, 0.25, 2.0, 0.03)
    assert late(count, 5.5, 0.25, 2.0) <= 0.03 < late(count - 1, 5.5, 0.25, 2.0)
    assert needed(0.0, 0.0, 1.0, 0.03) == 1
    assert needed(1e9, 1.0, 1.0, 0.03) == 1000


def test_useful_is_at_least_two() -> None:
    assert (useful(0.0), useful(0.01), useful(4.0)) == (2, 2, 10)


@given(st.integers(1, 60), st.floats(0.01, 0.95))
def test_the_load_is_found_again_from_the_busy(replicas: int, part: float) -> None:
    load = part * replicas
    busy = load + must_wait(replicas, load) * load / (replicas - load) * 1.5
    assert erlangs_of(busy, replicas) == pytest.approx(load, rel=1e-3)


@given(st.integers(1, 60), st.floats(0, 1e6))
def test_no_more_load_than_replicas_is_ever_seen(replicas: int, busy: float) -> None:
    assert 0 <= erlangs_of(busy, replicas) <= min(busy, replicas)


@given(
    st.tuples(st.floats(0, 200), st.floats(0, 200)).map(sorted),
    st.floats(0.001, 10),
    st.floats(0, 10),
)
def test_more_load_needs_no_fewer_replicas(
    loads: list[float], service: float, slack: float
) -> None:
    low, high = (needed(load, service, slack, 0.03) for load in loads)
    assert low <= high
    assert useful(loads[0]) <= useful(loads[1])
