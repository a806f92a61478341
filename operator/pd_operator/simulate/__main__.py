"""`python -m pd_operator.simulate`: compares policies on a trace."""

import argparse
import json
import sys
from pathlib import Path

from pd_operator.simulate import traces
from pd_operator.simulate.latency import Latency, read_table
from pd_operator.simulate.others import HPA, Bounds, Fixed
from pd_operator.simulate.policies import Ours
from pd_operator.simulate.report import Row, row, table
from pd_operator.simulate.setting import Scaling, Setting
from pd_operator.simulate.traces import Trace
from pd_operator.simulate.world import World


def main(arguments: list[str] | None = None) -> int:
    """Run the comparison; 1 with a message where an input cannot be used."""
    options = _options().parse_args(arguments)
    try:
        latency = read_table(options.latencies, options.model, options.system)
        trace = _trace(options)
    except (OSError, ValueError, KeyError) as error:
        print(f"simulate: {error}", file=sys.stderr)
        return 1
    rows = [_simulate(name, trace, latency, options) for name in options.policy]
    print(table(rows))
    if options.json is not None:
        options.json.write_text(json.dumps([r.json() for r in rows], indent=1) + "\n")
    return 0


def _options() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m pd_operator.simulate", description=__doc__)
    parser.add_argument("kind", choices=("mooncake", "azure", "servegen", "sine"))
    parser.add_argument("--trace", type=Path, help="the trace's file (not for sine)")
    parser.add_argument("--latencies", type=Path, required=True, help="CSV of measured latencies")
    parser.add_argument("--model", default="Qwen/Qwen3-32B-FP8")
    parser.add_argument("--system", default="h200_sxm")
    parser.add_argument("--copies", type=int, default=1, help="azure: every request so often")
    parser.add_argument("--ttft", type=float, default=2.0, help="target, seconds")
    parser.add_argument("--tpot", type=float, default=0.05, help="target, seconds")
    parser.add_argument("--startup", type=float, default=120.0, help="of a pod, seconds")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="write the rows to this file")
    parser.add_argument(
        "--policy",
        action="append",
        required=True,
        help="ours, hpa, or PREFILLxDECODE such as 8x2; may be given several times",
    )
    return parser


def _trace(options: argparse.Namespace) -> Trace:
    if options.kind == "sine":
        return traces.sine(
            low=1, high=24, period=600, seconds=3600, prompt=4000, output=200, seed=options.seed
        )
    if options.trace is None:
        raise ValueError(f"{options.kind} needs --trace")
    if options.kind == "mooncake":
        return traces.mooncake(options.trace)
    if options.kind == "azure":
        return traces.azure(options.trace, options.copies, seed=options.seed)
    return traces.servegen(options.trace, seed=options.seed)


def _simulate(name: str, trace: Trace, latency: Latency, options: argparse.Namespace) -> Row:
    bounds = Bounds(options.ttft, options.tpot)
    policy: Scaling
    if name == "ours":
        policy, start = Ours(bounds), (1, 1)
    elif name == "hpa":
        policy, start = HPA(bounds), (1, 1)
    else:
        prefill, _, decode = name.partition("x")
        start = (int(prefill), int(decode))
        policy = Fixed(*start)
    run = World(trace, Setting(latency, options.startup, *start), policy).run()
    return row(options.kind, name, options.startup, (options.ttft, options.tpot), run)


if __name__ == "__main__":
    sys.exit(main())
