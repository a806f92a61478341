import pytest

from pd_operator.autoscale.proof import proof
from pd_operator.autoscale.sample import ProxySample
from pd_operator.autoscale.window import History, Range


def kv(expected: dict[str, float], moved: dict[str, float], requests: float = 0) -> ProxySample:
    counted = {"d": requests}
    return ProxySample(kv_expected=expected, kv_moved=moved, kv_recomputed={}, kv_requests=counted)


def history(*points: tuple[str, float, ProxySample]) -> History:
    result = History()
    for uid, time, sample in points:
        result = result.record(uid, time, sample, keep=1000)
    return result


WINDOW = Range(0, 300, 45)


def test_a_first_count_is_counted() -> None:
    one = history(("a", 0, kv({}, {})), ("a", 15, kv({"d-0": 143}, {"d-0": 143})))
    result = proof(one, WINDOW)
    assert (result.expected, result.moved) == (143, 143)


def test_what_was_counted_before_the_first_scrape_is_not_counted() -> None:
    one = history(("a", 0, kv({"d": 9}, {"d": 9})), ("a", 15, kv({"d": 10}, {"d": 9})))
    assert (proof(one, WINDOW).expected, proof(one, WINDOW).moved) == (1, 0)


def test_requests_of_two_proxies_add_up_but_a_decoder_that_both_watch_does_not() -> None:
    one = history(
        ("a", 0, kv({}, {})),
        ("b", 0, kv({}, {})),
        ("a", 100, kv({"d-0": 100, "d-1": 50}, {"d-0": 300, "d-1": 50})),
        ("b", 100, kv({"d-0": 200}, {"d-0": 300, "d-1": 50})),
    )
    result = proof(one, WINDOW)
    assert (result.expected, result.moved) == (350, 350)


def test_what_a_decoder_had_cached_need_not_move() -> None:
    def sample(expected: float, moved: float, cached: float) -> ProxySample:
        return ProxySample(
            kv_expected={"d": expected}, kv_moved={"d": moved}, kv_cached={"d": cached}
        )

    one = history(("a", 0, sample(0, 0, 0)), ("a", 15, sample(1000, 360, 640)))
    result = proof(one, WINDOW)
    assert (result.expected, result.moved) == (360, 360)
    # Nothing else is excused, and more cached than expected is no debt.
    one = history(("a", 0, sample(0, 0, 0)), ("a", 15, sample(1000, 0, 640)))
    assert (proof(one, WINDOW).expected, proof(one, WINDOW).moved) == (360, 0)
    one = history(("a", 0, sample(0, 0, 0)), ("a", 15, sample(100, 0, 640)))
    assert proof(one, WINDOW).expected == 0


def test_the_newest_expected_tokens_are_not_settled() -> None:
    one = history(
        ("a", 0, kv({"d": 0}, {"d": 0})),
        ("a", 260, kv({"d": 100}, {"d": 100})),
        ("a", 275, kv({"d": 100}, {"d": 100})),
        ("a", 300, kv({"d": 500}, {"d": 100})),
    )
    result = proof(one, WINDOW)
    assert (result.expected, result.settled_expected, result.settled_moved) == (500, 100, 100)


def test_a_decoder_that_is_gone_and_a_bad_sample_change_nothing() -> None:
    one = history(
        ("a", 0, kv({}, {})),
        ("a", 15, kv({"d-0": 100}, {"d-0": 100})),
        ("a", 30, ProxySample()),
        ("a", 45, kv({"d-0": 100}, {"d-0": 100})),
        ("a", 60, kv({"d-1": 20}, {"d-1": 20})),
    )
    assert proof(one, WINDOW).expected == pytest.approx(120)
    assert proof(one, WINDOW).moved == pytest.approx(120)


def traffic(*moved: float, each: float = 100.0) -> History:
    """A request of `each` tokens every 15 s, and how much of each moved."""
    points, total = [("a", 0.0, kv({"d": 0}, {"d": 0}))], 0.0
    for number, tokens in enumerate(moved, 1):
        total += tokens
        points.append(("a", 15.0 * number, kv({"d": each * number}, {"d": total}, number)))
    return history(*points)


@pytest.mark.parametrize(
    ("moved", "broken", "moves"),
    [
        ([100] * 20, False, True),
        ([0] * 20, True, False),
        # A wrong wire shows with the third request that has settled.
        ([0] * 3 + [0] * 2, True, False),
        ([0], False, True),  # not settled: nothing was expected yet
        # One lost transfer of twenty, and of five.
        ([100] * 9 + [0] + [100] * 10, False, True),
        ([100] * 2 + [0] + [100] * 4, False, True),
        ([100, 0, 0, 100, 100, 100, 0], False, False),
        # One decoder of four is cut off.
        ([100, 100, 100, 0] * 5, True, False),
        # All of a burst were lost with a pod, and none since.
        ([0] * 4 + [100] * 16, False, False),
    ],
)
def test_one_loss_is_no_rule(moved: list[float], *, broken: bool, moves: bool) -> None:
    window = Range(0, 15.0 * len(moved), 45)
    result = proof(traffic(*moved), window)
    assert (result.broken, result.moves) == (broken, moves)
