"""Workloads: from files of public traces, or drawn from a seed."""

import csv
import json
import math
import random
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path


@dataclass(frozen=True)
class Request:
    """A request: arrival in seconds from the trace's start, lengths in tokens."""

    time: float
    prompt: int
    output: int


Trace = tuple[Request, ...]


def mooncake(path: Path) -> Trace:
    """A Mooncake trace: JSON lines with timestamp (ms), input_length and output_length."""
    requests = []
    with path.open() as file:
        for line in file:
            row = json.loads(line)
            requests.append(
                Request(row["timestamp"] / 1000, row["input_length"], max(1, row["output_length"]))
            )
    return _sorted(requests)


def azure(path: Path, copies: int = 1, spread: float = 20.0, seed: int = 0) -> Trace:
    """An Azure LLM inference trace: CSV with TIMESTAMP, ContextTokens, GeneratedTokens.

    Each request comes `copies` times, all but the first moved by up to `spread` seconds.
    """
    draw = random.Random(seed)  # noqa: S311 - a simulation, nothing secret
    requests = []
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    start = min(_azure_time(row["TIMESTAMP"]) for row in rows)
    for row in rows:
        time = _azure_time(row["TIMESTAMP"]) - start
        for copy in range(copies):
            moved = time if copy == 0 else max(0.0, time + draw.uniform(-spread, spread))
            requests.append(
                Request(moved, int(row["ContextTokens"]), max(1, int(row["GeneratedTokens"])))
            )
    return _sorted(requests)


def servegen(path: Path, hours: float = 12.0, rate: float = 2.4, seed: int = 0) -> Trace:
    """The diurnal shape of a ServeGen file: CSV with t_s, total_rps and mean token counts.

    The stretch of `hours` with the largest ratio of rates, scaled to `rate` requests per second
    on average; Gamma inter-arrival times (CV 1.5), lognormal lengths.
    """
    draw = random.Random(seed)  # noqa: S311 - a simulation, nothing secret
    with path.open(newline="") as file:
        bins = [
            (float(r["total_rps"]), float(r["mean_input_tokens"]), float(r["mean_output_tokens"]))
            for r in csv.DictReader(file)
        ]
    width, count = 600.0, round(hours * 6)
    start = max(
        range(len(bins) - count + 1),
        key=lambda i: (
            max(b[0] for b in bins[i : i + count])
            / max(1e-9, min(b[0] for b in bins[i : i + count]))
        ),
    )
    bins = bins[start : start + count]
    scale = rate / (sum(b[0] for b in bins) / count)
    shape = 1 / 1.5**2
    requests: list[Request] = []
    time = 0.0
    while time < count * width:
        index = int(time / width)
        here, after = bins[index][0], bins[min(index + 1, count - 1)][0]
        now = scale * (here + (after - here) * (time / width - index))
        _, prompt, output = bins[index]
        requests.append(
            Request(
                time,
                _length(draw, 6 * prompt, 0.8, 16, 60_000),
                _length(draw, 2 * output, 0.8, 1, 4_000),
            )
        )
        time += draw.gammavariate(shape, 1 / (shape * now))
    return _sorted(requests)


def sine(
    *,
    low: float,
    high: float,
    period: float,
    seconds: float,
    prompt: float,
    output: float,
    seed: int,
) -> Trace:
    """Poisson arrivals whose rate swings between two values, lognormal lengths."""
    draw = random.Random(seed)  # noqa: S311 - a simulation, nothing secret
    requests: list[Request] = []
    time = draw.expovariate(high)
    while time < seconds:
        rate = low + (high - low) * (1 - math.cos(2 * math.pi * time / period)) / 2
        # Thinning: arrivals at the highest rate, of which a part is kept.
        if draw.random() * high < rate:
            requests.append(
                Request(
                    time,
                    _length(draw, prompt, 0.5, 16, 60_000),
                    _length(draw, output, 0.5, 1, 4_000),
                )
            )
        time += draw.expovariate(high)
    return tuple(requests)


def _length(draw: random.Random, mean: float, sigma: float, least: int, most: int) -> int:
    mu = math.log(mean) - sigma**2 / 2
    return min(most, max(least, round(draw.lognormvariate(mu, sigma))))


def _azure_time(text: str) -> float:
    # Seven digits after the point are one too many for fromisoformat in Python 3.11.
    return datetime.fromisoformat(text[:26]).replace(tzinfo=UTC).timestamp()


def _sorted(requests: list[Request]) -> Trace:
    return tuple(sorted(requests, key=lambda r: r.time))
