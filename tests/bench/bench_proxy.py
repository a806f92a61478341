"""The proxy's cost between constant engines on loopback: `make bench-proxy`.

Engines, proxy and load are processes of their own. CPU is what the kernel says of the proxy.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from tests.bench.constant import CHUNKS
from tools.paths import BUILD, REPOSITORY
from tools.stages import UserError, fail, say

WHO: Final = "bench-proxy"
RUNS: Final = 5
SECONDS: Final = 3.0
STREAMS: Final = 64


@dataclass(frozen=True)
class Row:
    """One figure over all runs."""

    name: str
    unit: str
    values: tuple[float, ...]

    def as_json(self) -> dict[str, Any]:
        """The row for build/bench/proxy.json."""
        return {
            "name": self.name,
            "unit": self.unit,
            "ours": statistics.median(self.values),
            "runs": len(self.values),
            "min": min(self.values),
            "max": max(self.values),
        }


@dataclass(frozen=True)
class Proxy:
    """A proxy process."""

    pid: int
    port: int

    def cpu(self) -> float:
        """CPU seconds that it has used, in user and kernel mode."""
        tasks = Path(f"/proc/{self.pid}/task")
        return sum(int((t / "schedstat").read_text().split()[0]) for t in tasks.iterdir()) / 1e9


@contextmanager
def _process(*arguments: str) -> Iterator[subprocess.Popen[str]]:
    environment = {**os.environ, "PYTHONPATH": f"{REPOSITORY}/operator:{REPOSITORY}"}
    process = subprocess.Popen(
        [sys.executable, "-m", *arguments],
        stdout=subprocess.PIPE, text=True, env=environment, cwd=REPOSITORY,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def _line(process: subprocess.Popen[str]) -> str:
    line = process.stdout.readline() if process.stdout else ""
    if not line:
        raise UserError(f"a process of the benchmark ended with {process.wait()}")
    return line


@contextmanager
def _proxy(folder: Path, prefiller: int, decoder: int) -> Iterator[Proxy]:
    config = folder / "config.json"
    config.write_text(
        json.dumps(
            {
                "deployment": "bench",
                "namespace": "bench",
                "deploymentUid": "bench",
                "servedNames": ["tiny"],
                "listen": {"host": "127.0.0.1", "port": 0},
                "admin": {"host": "127.0.0.1", "port": 0},
                "timeouts": {
                    "connect": 2.0, "bootstrap": 5.0, "prefill": 120.0, "firstToken": 150.0,
                    "betweenTokens": 60.0,
                },
                "limits": {
                    "bodyBytes": 32 << 20, "headerBytes": 65536, "connections": 4096,
                    "inFlight": 1024,
                },
            }
        )
    )  # fmt: skip
    backends = folder / "backends.json"
    backends.write_text(
        json.dumps(
            [
                {"name": "p", "tier": "prefiller", "host": "127.0.0.1", "port": prefiller,
                 "bootstrapPort": prefiller},
                {"name": "d", "tier": "decoder", "host": "127.0.0.1", "port": decoder},
            ]
        )
    )  # fmt: skip
    with _process("pd_proxy", "--config", str(config), "--backends", str(backends)) as process:
        yield Proxy(process.pid, json.loads(_line(process))["port"])


def _load(port: int, connections: int, kind: str, seconds: float = SECONDS) -> dict[str, float]:
    with _process(
        "tests.bench.constant", "load", str(port), str(connections), str(seconds), kind
    ) as process:
        figures: dict[str, float] = json.loads(_line(process))
    if figures["errors"] or not figures["answers"]:
        raise UserError(f"the load saw {figures['errors']:.0f} errors: {figures}")
    return figures


def measure(runs: int = RUNS, seconds: float = SECONDS) -> list[Row]:
    """All figures."""
    rates: dict[int, list[float]] = {1: [], 16: []}
    direct: list[float] = []
    per_request: list[float] = []
    per_chunk: list[float] = []
    with (
        tempfile.TemporaryDirectory() as folder,
        _process("tests.bench.constant", "engine") as first,
        _process("tests.bench.constant", "engine") as second,
    ):
        prefiller, decoder = int(_line(first)), int(_line(second))
        with _proxy(Path(folder), prefiller, decoder) as proxy:
            _load(proxy.port, 16, "unary", 1.0)
            for run in range(runs):
                say(WHO, f"run {run + 1} of {runs}")
                figures = _load(decoder, 16, "unary", seconds / 3)
                direct.append(figures["answers"] / figures["seconds"])
                for connections, found in rates.items():
                    before = proxy.cpu()
                    figures = _load(proxy.port, connections, "unary", seconds)
                    cpu = proxy.cpu() - before
                    found.append(figures["answers"] / figures["seconds"])
                per_request.append(cpu / figures["answers"] * 1e6)
                before = proxy.cpu()
                figures = _load(proxy.port, STREAMS, "stream", seconds)
                cpu = proxy.cpu() - before
                per_chunk.append(cpu / (figures["answers"] * CHUNKS) * 1e6)
    return [
        Row("direct_engine_c16", "req/s", tuple(direct)),
        Row("unary_c1", "req/s", tuple(rates[1])),
        Row("unary_c16", "req/s", tuple(rates[16])),
        Row("cpu_per_request_round_robin", "us", tuple(per_request)),
        Row("sse_cpu_per_chunk", "us", tuple(per_chunk)),
    ]


def main() -> int:
    """Measure, print, write."""
    try:
        rows = measure()
    except UserError as error:
        return fail(WHO, error)
    target = BUILD / "bench" / "proxy.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(json.dumps([row.as_json() for row in rows], indent=2) + "\n")
    print(f"{'figure':<30}{'median':>10}{'min':>10}{'max':>10}  unit")
    for row in rows:
        median = statistics.median(row.values)
        print(
            f"{row.name:<30}{median:>10.1f}{min(row.values):>10.1f}{max(row.values):>10.1f}"
            f"  {row.unit}"
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
