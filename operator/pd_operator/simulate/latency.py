"""How long a prefiller and a decoder take; fitted to a table of measured latencies."""

import csv
import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Latency:
    """Times of one replica, in seconds.

    `prompts` are (tokens, seconds) in rising order; a decode step takes
    `base + per_request * batch + per_token * KV tokens of the batch`.
    """

    prompts: tuple[tuple[float, float], ...]
    base: float
    per_request: float
    per_token: float

    def prefill(self, tokens: float) -> float:
        """Seconds to prefill a prompt alone.

        Linear between the table's rows; beyond them the last three make a parabola, for the
        attention's work grows with the square.
        """
        if len(self.prompts) == 1:
            return self.prompts[0][1]
        if tokens > self.prompts[-1][0] and len(self.prompts) > 2:
            return self._beyond(tokens)
        index = bisect_right(self.prompts, (tokens, math.inf))
        index = min(max(index, 1), len(self.prompts) - 1)
        (x0, y0), (x1, y1) = self.prompts[index - 1], self.prompts[index]
        return max(0.0, y0 + (y1 - y0) * (tokens - x0) / (x1 - x0))

    def _beyond(self, tokens: float) -> float:
        (x0, y0), (x1, y1), (x2, y2) = self.prompts[-3:]
        before, last = (y1 - y0) / (x1 - x0), (y2 - y1) / (x2 - x1)
        bend = max(0.0, (last - before) / (x2 - x0))
        return y2 + (tokens - x2) * (last + bend * (tokens - x1))

    def step(self, batch: float, kv_tokens: float) -> float:
        """Seconds of one decode step of a batch, each request of which gets a token."""
        return self.base + self.per_request * batch + self.per_token * kv_tokens


def read_table(path: Path, model: str, system: str) -> Latency:
    """The latencies of a model on a system, from a CSV with latencies in milliseconds.

    Columns: model, system, phase (prefill, decode), batch, isl_or_ctx, latency_ms. ValueError
    where the table has no such rows.
    """
    with path.open(newline="") as file:
        rows = [r for r in csv.DictReader(file) if (r["model"], r["system"]) == (model, system)]
    prompts = sorted(
        (float(r["isl_or_ctx"]), float(r["latency_ms"]) / 1000)
        for r in rows
        if r["phase"] == "prefill" and r["batch"] == "1"
    )
    steps = [
        (float(r["batch"]), float(r["isl_or_ctx"]), float(r["latency_ms"]) / 1000)
        for r in rows
        if r["phase"] == "decode"
    ]
    if not prompts or len(steps) < 3:
        raise ValueError(f"{path} has no latencies of {model} on {system}")
    base, per_request, per_token = _least_squares([(1.0, b, b * c) for b, c, _ in steps], steps)
    return Latency(tuple(prompts), base, max(0.0, per_request), max(0.0, per_token))


def _least_squares(
    rows: Sequence[tuple[float, float, float]], steps: Iterable[tuple[float, float, float]]
) -> tuple[float, float, float]:
    """Coefficients of three columns, by the normal equations, relative errors weighted equally."""
    matrix = [[0.0] * 4 for _ in range(3)]
    for row, (_, _, seconds) in zip(rows, steps, strict=True):
        weight = 1 / seconds**2
        for i in range(3):
            for j in range(3):
                matrix[i][j] += weight * row[i] * row[j]
            matrix[i][3] += weight * row[i] * seconds
    for i in range(3):
        pivot = matrix[i][i]
        matrix[i] = [value / pivot for value in matrix[i]]
        for k in range(3):
            if k != i:
                factor = matrix[k][i]
                matrix[k] = [a - factor * b for a, b in zip(matrix[k], matrix[i], strict=True)]
    return matrix[0][3], matrix[1][3], matrix[2][3]
