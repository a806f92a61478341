from hypothesis import given
from hypothesis import strategies as st

from pd_operator.autoscale.joint import Want, split

WANTS = st.builds(Want, st.integers(1, 20), st.integers(1, 40), st.just(1))


def test_within_the_budget_everybody_gets_what_they_want() -> None:
    assert split(Want(3, 8, 1), Want(2, 1, 1), 12) == (8, 1)


def test_beyond_it_the_worse_tier_gets_its_part() -> None:
    assert split(Want(2, 12, 1), Want(2, 4, 1), 8) == (6, 2)
    assert split(Want(2, 30, 1), Want(2, 1, 1), 8) == (6, 1)


def test_a_tier_waits_for_what_the_other_gives_up() -> None:
    assert split(Want(6, 2, 1), Want(2, 6, 1), 8) == (2, 2)
    assert split(Want(2, 2, 1), Want(2, 6, 1), 8) == (2, 6)


@given(WANTS, WANTS, st.integers(2, 64))
def test_no_split_exceeds_the_budget_or_what_is_there(
    prefill: Want, decode: Want, budget: int
) -> None:
    first, second = split(prefill, decode, budget)
    assert 1 <= first <= max(prefill.desired, 1)
    assert 1 <= second <= max(decode.desired, 1)
    assert first + second <= budget
    there = max(first, prefill.current) + max(second, decode.current)
    assert there <= max(budget, prefill.current + decode.current)
