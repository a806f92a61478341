import json
from dataclasses import replace
from pathlib import Path

import pytest

from pd_operator.simulate.compare import Compared, Plan, compare
from pd_operator.simulate.html import page, panel
from pd_operator.simulate.latency import Latency
from pd_operator.simulate.others import Bounds, DynamoLike, Fixed, Ratio
from pd_operator.simulate.report import row
from pd_operator.simulate.scenario import Scenario
from pd_operator.simulate.setting import Routing, Scaling, Setting, Stuck
from pd_operator.simulate.statics import MOST, Statics
from pd_operator.simulate.traces import Request, Trace, sine
from pd_operator.simulate.world import World

LATENCY = Latency(((100, 0.1), (1000, 1.0)), base=0.01, per_request=0.001, per_token=0.0)
SETTING = Setting(LATENCY, 30.0, 2, 2, transfer_per_token=0.0)
STEADY = tuple(Request(float(t), 900, 20) for t in range(200))


class Watch:
    """Keeps a fixed split and what it saw."""

    interval = 10.0

    def __init__(self, prefill: int, decode: int) -> None:
        self.split = prefill, decode
        self.ready: list[int] = []

    def tick(self, now: float, sample: object, tiers: object) -> tuple[int, int]:
        self.ready.append(tiers.prefill_ready)  # type: ignore[attr-defined]
        return self.split


def test_requests_of_failed_pods_are_answered_by_others() -> None:
    setting = replace(SETTING, fail_every=20.0, seed=3)
    watch = Watch(2, 2)
    run = World(STEADY, setting, watch).run()
    assert all(job.finished is not None for job in run.jobs)
    assert any(job.attempt for job in run.jobs)
    assert min(watch.ready) < 2


def test_a_stuck_pod_is_not_ready_and_a_later_start_is_slower() -> None:
    stuck = replace(SETTING, prefill=1, stuck=(Stuck("prefill", 0.0, 100.0),))
    watch = Watch(2, 2)
    World(STEADY, stuck, watch).run()
    assert watch.ready.index(2) == 13
    slow = Watch(2, 2)
    World(STEADY, replace(SETTING, prefill=1, slower=((0.0, 3.0),)), slow).run()
    assert slow.ready.index(2) == 9


@pytest.mark.parametrize("routing", list(Routing))
def test_both_routings_share_the_load(routing: Routing) -> None:
    run = World(STEADY, replace(SETTING, routing=routing), Fixed(2, 2)).run()
    late = [j for j in run.jobs if j.first_token is None or j.first_token - j.request.time > 2]
    assert len(late) < 10


def test_beyond_the_table_a_prompt_costs_more_than_in_proportion() -> None:
    table = Latency(((100, 0.1), (200, 0.22), (400, 0.6)), 0.01, 0.001, 0.0)
    assert table.prefill(800) > 0.6 + 400 * (0.6 - 0.22) / 200
    assert table.prefill(401) == pytest.approx(0.6, rel=0.01)


def attain(prefill: int, decode: int) -> float:
    return min(1.0, 0.1 * prefill) * (1.0 if decode > 1 else 0.5)


def test_the_cheapest_split_is_found_and_each_is_played_once() -> None:
    played: list[tuple[int, int]] = []

    def play(prefill: int, decode: int) -> float:
        played.append((prefill, decode))
        return attain(prefill, decode)

    statics = Statics(play)
    assert statics.cheapest(0.75) == (8, 2)
    assert statics.cheapest(0.5) == (5, 2)
    assert statics.cheapest(1.1) == MOST
    assert statics.attainable() == 1.0
    assert statics.of_pods(9, 2) == pytest.approx(0.7)
    assert len(played) == len(set(played))


def policies() -> list[Scaling]:
    bounds = Bounds(2.0, 0.05)
    return [Ratio(bounds, 2.0, each=50.0), DynamoLike(bounds, LATENCY)]


@pytest.mark.parametrize("policy", policies())
def test_the_policies_of_others_grow_and_shrink(policy: Scaling) -> None:
    trace = sine(low=0.2, high=4, period=1200, seconds=1800, prompt=800, output=100, seed=2)
    run = World(trace, SETTING, policy).run()
    assert {after > before for _, _, before, after in run.changes} == {True, False}


def scenario(folder: Path, seed: int) -> Scenario:
    trace: Trace = sine(low=1, high=3, period=300, seconds=600, prompt=500, output=20, seed=seed)
    return Scenario("small", trace, 2.0, 0.05, (2, 1), 2.0)


def test_a_matrix_is_compared_and_becomes_one_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pd_operator.simulate.compare.SCENARIOS", {"small": scenario})
    plan = Plan(tmp_path, LATENCY, ("small",), (30.0, 60.0), (1,), ("fixed", "hpa"))
    results = list(compare(plan))
    assert [(r.row.policy, r.row.startup_s) for r, _, _ in results] == [
        ("fixed", 30.0), ("hpa", 30.0), ("hpa", 60.0),
    ]  # fmt: skip
    for result, _, _ in results:
        assert 0 < result.row.attainment <= result.attainable + 1e-9
        assert json.dumps(result.json())
    text = page("T", [r.json() for r, _, _ in results], [panel(*r) for r in results])
    assert text.count("<svg") == 4 * len(results)
    assert "http" not in text


def test_the_worst_minute_and_the_budget_are_told() -> None:
    burst = tuple(Request(60 + i / 10, 1000, 2) for i in range(60))
    run = World(STEADY[:30] + burst, replace(SETTING, startup=1000.0), Fixed(40, 40)).run()
    told = row("t", "f", 0, (2.0, 0.05), run)
    assert told.worst_minute < told.attainment
    assert told.over_budget > 0
    assert isinstance(Compared(told, 1, 1.0, (1, 1), 1.0, 1.0).json()["static"], str)
