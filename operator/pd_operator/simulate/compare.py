"""Plays every policy on every workload, and beside them the best fixed split in hindsight."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Final

from pd_operator.simulate.latency import Latency
from pd_operator.simulate.others import HPA, Bounds, DynamoLike, Fixed, Ratio
from pd_operator.simulate.policies import Ours
from pd_operator.simulate.report import Row, row
from pd_operator.simulate.scenario import SCENARIOS, Scenario
from pd_operator.simulate.setting import Run, Scaling, Setting
from pd_operator.simulate.statics import Statics
from pd_operator.simulate.world import World

BUDGET: Final = 64

Make = Callable[[Bounds, Scenario, Latency], Scaling]
POLICIES: Final[dict[str, Make]] = {
    "ours": lambda bounds, _, __: Ours(bounds),
    "hpa": lambda bounds, _, __: HPA(bounds),
    "ratio": lambda bounds, scenario, _: Ratio(bounds, scenario.ratio),
    "dynamo-like": lambda bounds, _, latency: DynamoLike(bounds, latency),
    "fixed": lambda _, scenario, __: Fixed(*scenario.initial),
}


@dataclass(frozen=True)
class Compared:
    """One policy's row beside the best that a fixed split could have done.

    `static` is the cheapest fixed split that attains as much, `equal` what the best fixed split
    of at most as many GPU-hours attains.
    """

    row: Row
    seed: int
    attainable: float
    static: tuple[int, int]
    static_gpu_hours: float
    equal: float

    def json(self) -> dict[str, object]:
        """As plain values."""
        return {
            **asdict(self.row),
            "seed": self.seed,
            "attainable": self.attainable,
            "of_attainable": self.row.attainment / max(1e-9, self.attainable),
            "static": f"{self.static[0]}P{self.static[1]}D",
            "static_gpu_hours": self.static_gpu_hours,
            "gpu_hours_of_static": self.row.gpu_hours / max(1e-9, self.static_gpu_hours),
            "static_attainment_at_equal_gpu_hours": self.equal,
        }


@dataclass(frozen=True)
class Plan:
    """Which part of the matrix to play."""

    folder: Path
    latency: Latency
    traces: Sequence[str] = tuple(SCENARIOS)
    startups: Sequence[float] = (30.0, 120.0, 300.0)
    seeds: Sequence[int] = (1, 2, 3)
    policies: Sequence[str] = tuple(POLICIES)


def compare(plan: Plan) -> Iterator[tuple[Compared, Scenario, Run]]:
    """One after the other, as they are played."""
    for name in plan.traces:
        for seed in plan.seeds:
            scenario = SCENARIOS[name](plan.folder, seed)
            statics = Statics(_attain(scenario, plan.latency))
            for startup in plan.startups:
                for policy in plan.policies:
                    if policy == "fixed" and startup != plan.startups[0]:
                        continue  # it starts nothing
                    case = _Case(scenario, plan.latency, statics, seed)
                    yield _one(case, policy, startup)


def play(
    scenario: Scenario, latency: Latency, policy: Scaling, startup: float, split: tuple[int, int]
) -> Run:
    """One policy on one workload."""
    setting = Setting(latency, startup, *split, budget=BUDGET)
    return World(scenario.trace, setting, policy).run()


def _attain(scenario: Scenario, latency: Latency) -> Callable[[int, int], float]:
    def attain(prefill: int, decode: int) -> float:
        run = play(scenario, latency, Fixed(prefill, decode), 0.0, (prefill, decode))
        return row(scenario.name, "static", 0.0, scenario.targets, run).attainment

    return attain


@dataclass(frozen=True)
class _Case:
    scenario: Scenario
    latency: Latency
    statics: Statics
    seed: int


def _one(case: _Case, policy: str, startup: float) -> tuple[Compared, Scenario, Run]:
    scenario, statics = case.scenario, case.statics
    bounds = Bounds(*scenario.targets, budget=BUDGET)
    made = POLICIES[policy](bounds, scenario, case.latency)
    run = play(scenario, case.latency, made, startup, scenario.initial)
    result = row(scenario.name, policy, startup, scenario.targets, run)
    split = statics.cheapest(result.attainment)
    hours = run.seconds / 3600
    pods = max(2, int(result.gpu_hours / hours + 1e-6))
    equal = statics.of_pods(pods, min(split[1], pods - 1))
    compared = Compared(result, case.seed, statics.attainable(), split, sum(split) * hours, equal)
    return compared, scenario, run
