"""The proxy's cost beside vllm-router's: `make bench-proxy`.

Both stand before the same constant engines, in the same run, and take turns, so that what else
the machine does falls on both. Engines, proxies and load are processes of their own. CPU is what
the kernel counts for the process, so waiting for a core does not matter; a figure's ratio is that
of neighbours in one run.
"""

import json
import statistics
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.bench import processes
from tests.bench.constant import CHUNKS
from tests.bench.processes import Server
from tools.paths import BUILD
from tools.stages import UserError, fail, say

WHO: Final = "bench-proxy"
RUNS: Final = 7
SECONDS: Final = 2.0
CONNECTIONS: Final = 16
STREAMS: Final = 64
HELD: Final = 5000
"""Streams open at once; half of 10,000, which need more than 20,000 files."""


@dataclass
class Figure:
    """One figure over all runs: ours and the peer's."""

    name: str
    unit: str
    goal: float
    """The ratio that is wanted at most."""
    ours: list[float] = field(default_factory=list)
    peer: list[float] = field(default_factory=list)

    @property
    def ratios(self) -> list[float]:
        return [a / b for a, b in zip(self.ours, self.peer, strict=True)]

    def as_json(self) -> dict[str, Any]:
        """The row for build/bench/proxy.json; `min` and `max` are the ratio's."""
        return {
            "name": self.name,
            "unit": self.unit,
            "ours": statistics.median(self.ours),
            "peer": statistics.median(self.peer),
            "ratio": statistics.median(self.ratios),
            "runs": len(self.ours),
            "min": min(self.ratios),
            "max": max(self.ratios),
            "goal": self.goal,
        }


def _cpu(server: Server, kind: str, connections: int, seconds: float, each: int = 1) -> float:
    """Microseconds of CPU for each answer, or for each part of one."""
    before = server.cpu()
    with processes.load(kind, server.port, connections, seconds) as figures:
        return (server.cpu() - before) / (figures["answers"] * each) * 1e6


def _wait(port: int, seconds: float) -> tuple[float, float]:
    """Milliseconds to the first event, p50 and p99, at a load that leaves the machine idle."""
    with processes.load("short", port, 2, seconds) as figures:
        return figures["p50"] * 1e3, figures["p99"] * 1e3


def _held(server: Server) -> float:
    """MiB for 10,000 open streams."""
    before = server.memory()
    with processes.load("held", server.port, HELD, 0.0):
        return (server.memory() - before) / HELD * 10_000 / 2**20


def measure(runs: int = RUNS, seconds: float = SECONDS) -> list[Figure]:
    """All figures."""
    round_robin = Figure("cpu_per_request_round_robin", "us", 0.5)
    prefix_aware = Figure("cpu_per_request_prefix_aware", "us", 0.35)
    per_chunk = Figure("sse_cpu_per_chunk", "us", 0.7)
    p50 = Figure("added_ttft_p50", "ms", 1.0)
    p99 = Figure("added_ttft_p99", "ms", 1.0)
    memory = Figure("memory_per_10000_streams", "MiB", 1.0)

    def requests(figure: Figure, found: tuple[Server, Server]) -> None:
        _each(figure, found, lambda server: _cpu(server, "unary", CONNECTIONS, seconds))

    def waits(found: tuple[Server, Server], direct: int) -> None:
        base = _wait(direct, seconds)
        (ours50, ours99), (peer50, peer99) = (_wait(server.port, seconds) for server in found)
        p50.ours.append(ours50 - base[0])
        p50.peer.append(peer50 - base[0])
        p99.ours.append(ours99 - base[1])
        p99.peer.append(peer99 - base[1])

    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        engines = stack.enter_context(processes.engines(2, 2))
        ours = stack.enter_context(processes.ours(folder, engines))
        plain, aware = (
            stack.enter_context(processes.peer(folder, engines, policy))
            for policy in ("round_robin", "cache_aware")
        )
        for server in (ours, plain, aware):
            _cpu(server, "unary", CONNECTIONS, 1.0)
        for run in range(runs):
            say(WHO, f"run {run + 1} of {runs}")
            requests(round_robin, (ours, plain))
            requests(prefix_aware, (ours, aware))
            _each(
                per_chunk, (ours, plain), lambda s: _cpu(s, "stream", STREAMS, seconds, CHUNKS)
            )  # fmt: skip
            waits((ours, plain), engines.decoders[0])
    for _ in range(5):
        with ExitStack() as stack:
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
            engines = stack.enter_context(processes.engines(1, 2))
            ours = stack.enter_context(processes.ours(folder, engines))
            plain = stack.enter_context(processes.peer(folder, engines, "round_robin"))
            _each(memory, (ours, plain), _held)
    return [round_robin, prefix_aware, per_chunk, p50, p99, memory]


def _each(figure: Figure, found: tuple[Server, Server], value: Callable[[Server], float]) -> None:
    ours, peer = found
    figure.ours.append(value(ours))
    figure.peer.append(value(peer))


def main() -> int:
    """Measure, print, write."""
    try:
        figures = measure()
    except UserError as error:
        return fail(WHO, error)
    rows = [figure.as_json() for figure in figures]
    target = BUILD / "bench" / "proxy.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps(rows, indent=2) + "\n")
    print(f"{'figure':<30}{'ours':>9}{'peer':>9} {'':4}{'ratio':>7}{'min':>7}{'max':>7}{'goal':>7}")
    for row in rows:
        print(
            f"{row['name']:<30}{row['ours']:>9.2f}{row['peer']:>9.2f} {row['unit']:4}"
            f"{row['ratio']:>7.2f}{row['min']:>7.2f}{row['max']:>7.2f}{row['goal']:>7.2f}"
            f"  {'' if row['ratio'] <= row['goal'] else 'not reached'}".rstrip()
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
