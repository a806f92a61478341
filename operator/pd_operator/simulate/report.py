"""What a simulation gave, as numbers and as a table."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from pd_operator.simulate.setting import Run, tpot


@dataclass(frozen=True)
class Row:
    """One policy on one trace; latencies in seconds, attainment between 0 and 1.

    `attainment` is the part of the requests that met both targets; `reversals` counts changes
    of direction within ten minutes; `worst_minute` is the least attainment of a minute with at
    least ten requests, `over_budget` how often more than the budget was asked for.
    """

    trace: str
    policy: str
    startup_s: float
    attainment: float
    gpu_hours: float
    prefill: float
    decode: float
    events: int
    reversals: int
    ttft_p50: float
    ttft_p99: float
    tpot_p99: float
    worst_minute: float
    over_budget: int

    def json(self) -> dict[str, str | float | int]:
        """As plain values."""
        return asdict(self)


def row(trace: str, policy: str, startup: float, targets: tuple[float, float], run: Run) -> Row:
    """The numbers of a run, for targets (TTFT, TPOT) in seconds."""
    met = 0
    firsts: list[float] = []
    steps: list[float] = []
    minutes: dict[int, list[int]] = {}
    for job in run.jobs:
        first = None if job.first_token is None else job.first_token - job.request.time
        each = tpot(job)
        if first is not None:
            firsts.append(first)
        if each is not None:
            steps.append(each)
        good = first is not None and first <= targets[0] and (each is None or each <= targets[1])
        met += good
        minute = minutes.setdefault(int(job.request.time // 60), [0, 0])
        minute[0] += good
        minute[1] += 1
    return Row(
        trace=trace,
        policy=policy,
        startup_s=startup,
        attainment=met / len(run.jobs),
        gpu_hours=run.pod_seconds / 3600,
        prefill=_mean(run, "prefill"),
        decode=_mean(run, "decode"),
        events=len(run.changes),
        reversals=_reversals(run),
        ttft_p50=_quantile(firsts, 0.5),
        ttft_p99=_quantile(firsts, 0.99),
        tpot_p99=_quantile(steps, 0.99),
        worst_minute=min((m[0] / m[1] for m in minutes.values() if m[1] >= 10), default=1.0),
        over_budget=run.over_budget,
    )


def table(rows: Sequence[Row]) -> str:
    """Rows as aligned text."""
    head = ("trace", "policy", "attained", "GPU-h", "P", "D", "events", "back", "TTFT p50", "p99",
            "TPOT p99")  # fmt: skip
    lines = [head, *(_cells(r) for r in rows)]
    widths = [max(len(line[i]) for line in lines) for i in range(len(head))]
    return "\n".join(
        "  ".join(
            cell.ljust(width) if i < 2 else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(line, widths, strict=True))
        )
        for line in lines
    )


def _cells(r: Row) -> tuple[str, ...]:
    return (
        r.trace,
        r.policy,
        f"{100 * r.attainment:.1f} %",
        f"{r.gpu_hours:.1f}",
        f"{r.prefill:.1f}",
        f"{r.decode:.1f}",
        str(r.events),
        str(r.reversals),
        f"{r.ttft_p50:.2f} s",
        f"{r.ttft_p99:.2f} s",
        f"{1000 * r.tpot_p99:.0f} ms",
    )


def _mean(run: Run, tier: str) -> float:
    changes = [(time, before, after) for time, name, before, after in run.changes if name == tier]
    if not changes or run.seconds <= 0:
        return float(run.initial[tier])
    area, last, value = 0.0, 0.0, changes[0][1]
    for time, _, after in changes:
        area += value * (min(time, run.seconds) - last)
        last, value = min(time, run.seconds), after
    return (area + value * (run.seconds - last)) / run.seconds


def _reversals(run: Run) -> int:
    found = 0
    last: dict[str, tuple[float, bool]] = {}
    for time, tier, before, after in run.changes:
        up = after > before
        if tier in last and last[tier][1] is not up and time - last[tier][0] <= 600:
            found += 1
        last[tier] = (time, up)
    return found


def _quantile(values: list[float], q: float) -> float:
    if not values:
        return 0.0
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(q * len(ordered)))]
