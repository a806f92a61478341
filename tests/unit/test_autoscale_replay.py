import math
from typing import Any

from pd_operator.autoscale.adapters.replay import make_policy


def observation(requests: float = 30, ttft: float = 300, **values: Any) -> dict[str, Any]:
    return {
        "traffic": {
            "duration_s": 15,
            "num_req": requests,
            "avg_isl": 1000,
            "avg_osl": 100,
            "avg_ttft_ms": ttft,
            "ttft_count": requests,
            "avg_itl_ms": 20,
        },
        "prefill_fpm_snapshots": [{"num_prefill_requests": 1, "num_queued_prefill": 2}],
        "decode_fpm_snapshots": [{"num_decode_requests": 4, "num_queued_decode": 0}],
        "active_prefill": ["p0"],
        "active_decode": ["d0"],
        "non_draining_prefill_count": 1,
        "non_draining_decode_count": 1,
        **values,
    }


def test_a_late_first_token_grows_the_prefillers_only() -> None:
    policy = make_policy(ttft_ms=1000, itl_ms=50)
    assert policy.initial_tick_ms() == 15_000
    policy.on_tick(observation())
    answer = policy.on_tick(observation(ttft=4000))
    assert (answer["target_prefill"], answer["target_decode"]) == (2, None)
    assert answer["next_tick_ms"] == 45_000
    policy.finalize()


def test_what_stays_is_none() -> None:
    policy = make_policy(ttft_ms=1000, itl_ms=50)
    answers = [policy.on_tick(observation(ttft=100, now_ms=15_000 * tick)) for tick in range(1, 20)]
    assert {(a["target_prefill"], a["target_decode"]) for a in answers} == {(None, None)}
    assert answers[-1]["next_tick_ms"] == 15_000 * 20


def test_numbers_that_are_none_or_nan_are_no_numbers() -> None:
    policy = make_policy(ttft_ms=1000, itl_ms=50)
    empty = observation(requests=math.nan, traffic=None, prefill_fpm_snapshots=None)
    for _ in range(30):
        answer = policy.on_tick(empty)
    assert (answer["target_prefill"], answer["target_decode"]) == (None, None)
    nan = observation(ttft=math.nan)
    assert policy.on_tick(nan)["target_prefill"] is None


def test_an_idle_tier_shrinks_to_its_minimum() -> None:
    policy = make_policy(ttft_ms=1000, itl_ms=50)
    pods = 4
    idle: dict[str, Any] = {
        "prefill_fpm_snapshots": [],
        "decode_fpm_snapshots": [],
        "traffic": {"num_req": 0},
    }
    for _ in range(60):
        seen = observation(
            **idle,
            active_prefill=[f"p{i}" for i in range(pods)],
            non_draining_prefill_count=pods,
        )
        target = policy.on_tick(seen)["target_prefill"]
        pods = pods if target is None else int(target)
    assert pods == 1


def test_workers_are_counted_whatever_the_keys() -> None:
    seen: dict[str, Any] = {
        "now_ms": 15_000,
        "traffic": {"num_req": 60, "avg_isl": 4000, "shape_count": 60, "avg_ttft_ms": 9000},
        "active_prefill_ids": [1, 2],
        "starting_prefill_ids": [3],
        "active_decode_count": 1,
    }
    policy = make_policy(ttft_ms=1000, itl_ms=50, budget=5)
    policy.on_tick(seen)
    targets = [policy.on_tick({**seen, "now_ms": 15_000 * n}) for n in range(2, 12)]
    grown = [t["target_prefill"] for t in targets if t["target_prefill"] is not None]
    assert grown
    assert all(n <= 4 for n in grown)


def test_nothing_at_all_is_no_reason_to_change() -> None:
    policy = make_policy(ttft_ms=1000, itl_ms=50)
    for _ in range(100):
        answer = policy.on_tick({})
        assert (answer["target_prefill"], answer["target_decode"]) == (None, None)
