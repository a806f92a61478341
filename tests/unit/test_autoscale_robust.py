"""What broken metrics and pods cost at most: attainment and GPU-hours beside an undisturbed run."""

from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from pd_operator.simulate.faults import Faulty
from pd_operator.simulate.latency import Latency
from pd_operator.simulate.others import Bounds
from pd_operator.simulate.policies import Ours
from pd_operator.simulate.report import Row, row
from pd_operator.simulate.setting import Run, Setting, Stuck
from pd_operator.simulate.traces import Request, sine
from pd_operator.simulate.world import World

LATENCY = Latency(((100, 0.1), (1000, 1.0)), base=0.01, per_request=0.001, per_token=0.0)
SETTING = Setting(LATENCY, 60.0, 3, 1, transfer_per_token=0.0, budget=16)
TRACE = sine(low=1, high=5, period=1200, seconds=2400, prompt=400, output=40, seed=4)
TARGETS = (2.0, 0.05)
RISE = (150.0, 270.0)


def policy() -> Ours:
    return Ours(Bounds(*TARGETS, max=12, budget=16))


def told(run: Run) -> Row:
    return row("t", "ours", 60, TARGETS, run)


@cache
def calm() -> Row:
    return told(World(TRACE, SETTING, policy()).run())


def played(faults: dict[str, Any], **setting: Any) -> tuple[Row, Faulty]:
    faulty = Faulty(policy(), **faults)
    return told(World(TRACE, replace(SETTING, **setting), faulty).run()), faulty


def test_undisturbed_most_requests_are_in_time_below_the_cost_of_the_peak() -> None:
    assert calm().attainment > 0.93
    assert calm().gpu_hours < 0.75 * 7 * 2400 / 3600
    assert calm().over_budget == 0


@pytest.mark.parametrize(
    ("faults", "loss", "cost"),
    [
        ({"lost": 0.2}, 0.03, 1.15),
        ({"dark": RISE}, 0.12, 1.2),
        ({"frozen": RISE}, 0.12, 1.35),
        ({"garbled": RISE}, 0.12, 1.2),
    ],
)
def test_broken_metrics_cost_little_and_shrink_nothing(
    faults: dict[str, Any], loss: float, cost: float
) -> None:
    result, faulty = played(faults)
    assert result.attainment >= calm().attainment - loss
    assert result.gpu_hours <= cost * calm().gpu_hours
    assert faulty.shrunk_blind == 0
    assert result.over_budget == 0


def test_a_start_three_times_slower_than_learned() -> None:
    result, _ = played({}, slower=((100.0, 3.0),))
    assert result.attainment >= calm().attainment - 0.2
    assert result.gpu_hours <= 1.3 * calm().gpu_hours


def test_failing_pods_cost_what_they_served() -> None:
    result, _ = played({}, fail_every=300.0, seed=5)
    assert result.attainment >= calm().attainment - 0.15
    assert result.gpu_hours <= 1.3 * calm().gpu_hours


def test_a_decoder_that_never_starts_does_not_freeze_the_prefillers() -> None:
    stuck = (Stuck("decode", 0.0, 3600.0),)
    faulty = Faulty(policy())
    setting = replace(SETTING, prefill=1, decode=1, stuck=stuck)
    # Long answers: the decoders grow, and what they get never comes.
    trace = tuple(Request(r.time, r.prompt, 200) for r in TRACE)
    run = World(trace, setting, faulty).run()
    prefill = [after > before for _, tier, before, after in run.changes if tier == "prefill"]
    assert True in prefill
    assert False in prefill


@pytest.mark.parametrize("factor", [3.0, 1 / 3])
def test_what_was_learned_of_another_model_is_unlearned(factor: float) -> None:
    ours = policy()
    learned = Latency(
        tuple((tokens, factor * seconds) for tokens, seconds in LATENCY.prompts), 0.01, 0.001, 0.0
    )
    quarter = tuple(r for r in TRACE if r.time < 600)
    World(quarter, replace(SETTING, latency=learned, prefill=8), ours).run()
    work = ours.track.state.prefill.work
    assert work is not None
    assert 0.6 * factor < work / 1e-3 < 2.0 * factor
    shifted = _Later(ours, 700.0)
    result = told(World(TRACE, SETTING, shifted).run())
    after = ours.track.state.prefill.work
    assert after is not None
    assert 0.7 < after / 1e-3 < 1.7
    assert result.attainment >= calm().attainment - 0.2
    assert result.gpu_hours <= 1.6 * calm().gpu_hours


class _Later:
    """A policy that has lived before."""

    def __init__(self, ours: Ours, by: float) -> None:
        self.ours, self.by, self.interval = ours, by, ours.interval

    def tick(self, now: float, sample: Any, tiers: Any) -> tuple[int, int]:
        return self.ours.tick(now + self.by, sample, tiers)


def test_to_nothing_and_back() -> None:
    first = tuple(r for r in TRACE if r.time < 600)
    again = tuple(replace(r, time=r.time + 3000) for r in first)
    run = World(first + again, SETTING, policy()).run()
    lowest = min(look.prefill + look.decode for look in run.looks if 1000 < look.time < 3000)
    assert lowest == 2
    assert told(run).attainment > 0.6
