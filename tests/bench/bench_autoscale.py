"""`make bench-autoscale`: every policy on every workload, in simulation.

Writes build/bench/autoscale.json and build/bench/autoscale.html. A part of the matrix:
`make bench-autoscale ARGS="--trace sg --startup 120 --seed 1"`.
"""

import argparse
import json
import sys
import time
from pathlib import Path

from pd_operator.simulate.compare import POLICIES, Compared, Plan, compare
from pd_operator.simulate.html import Panel, page, panel
from pd_operator.simulate.latency import read_table
from pd_operator.simulate.report import table
from pd_operator.simulate.scenario import SCENARIOS
from tests.bench import decision_cost

TRACES = Path("../shared/traces")
OUT = Path("build/bench")


def main() -> int:
    options = _options().parse_args()
    started = time.monotonic()
    try:
        latency = read_table(options.latencies or options.traces / "aic_latency_tables.csv",
                             options.model, options.system)  # fmt: skip
    except (OSError, ValueError) as error:
        print(f"bench-autoscale: {error}", file=sys.stderr)
        return 1
    plan = Plan(
        options.traces,
        latency,
        options.trace or tuple(SCENARIOS),
        options.startup or (30.0, 120.0, 300.0),
        options.seed or (1, 2, 3),
        options.policy or tuple(POLICIES),
    )
    compared: list[Compared] = []
    panels: list[Panel] = []
    for result, scenario, run in compare(plan):
        compared.append(result)
        print(_line(result), flush=True)
        if result.seed == plan.seeds[0]:
            panels.append(panel(result, scenario, run))
    cost = decision_cost.measure()
    OUT.mkdir(parents=True, exist_ok=True)
    rows = [result.json() for result in compared]
    options.json.write_text(json.dumps({"rows": rows, "decision": cost}, indent=1) + "\n")
    options.html.write_text(page("Autoscaling in simulation", rows, panels))
    print(table([result.row for result in compared]))
    print(f"decision at 1000 pods: {cost['median_ms']:.2f} ms")
    print(f"{options.json}, {options.html}: {time.monotonic() - started:.0f} s")
    return 0


def _line(result: Compared) -> str:
    row = result.row
    return (
        f"{row.trace:5} start {row.startup_s:3.0f}s seed {result.seed} {row.policy:12}"
        f" {100 * row.attainment:5.1f} % of {100 * result.attainable:5.1f} %"
        f" = {100 * row.attainment / result.attainable:5.1f} %; {row.gpu_hours:6.1f} GPU-h"
        f" = {row.gpu_hours / result.static_gpu_hours:4.2f} of {result.static[0]}P"
        f"{result.static[1]}D; best static of as many {100 * result.equal:5.1f} %;"
        f" {row.prefill:4.1f}P {row.decode:4.1f}D; {row.events} events, {row.reversals} back"
    )


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="bench_autoscale", description=__doc__)
    parser.add_argument("--traces", type=Path, default=TRACES, help="folder of the traces")
    parser.add_argument("--latencies", type=Path, help="CSV of latencies (default: in --traces)")
    parser.add_argument("--model", default="Qwen/Qwen3-32B-FP8")
    parser.add_argument("--system", default="h200_sxm")
    parser.add_argument("--trace", action="append", choices=tuple(SCENARIOS))
    parser.add_argument("--startup", action="append", type=float)
    parser.add_argument("--seed", action="append", type=int)
    parser.add_argument("--policy", action="append", choices=tuple(POLICIES))
    parser.add_argument("--json", type=Path, default=OUT / "autoscale.json")
    parser.add_argument("--html", type=Path, default=OUT / "autoscale.html")
    return parser


if __name__ == "__main__":
    sys.exit(main())
