"""The comparison as one HTML file that needs nothing else: a table, and plots over time."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Final, TypeVar

from pd_operator.simulate.compare import Compared
from pd_operator.simulate.scenario import Scenario
from pd_operator.simulate.setting import Run, tpot

T = TypeVar("T")
Points = Sequence[tuple[float, float]]

_WIDTH: Final = 640
_HEIGHT: Final = 120
_COLOURS: Final = ("#1667b7", "#c8501e", "#2d8a4e")
_STYLE: Final = (
    "body{font:14px sans-serif;margin:2em;max-width:90em}table{border-collapse:collapse}"
    "td,th{padding:2px 8px;text-align:right;border-bottom:1px solid #ddd}"
    "td:nth-child(-n+3),th:nth-child(-n+3){text-align:left}tr.ours{background:#eef5fc}"
    ".plots{display:flex;flex-wrap:wrap;gap:1em}figure{margin:0}figcaption{font-size:12px}"
    "details{margin:.5em 0}summary{cursor:pointer}"
)
_COLUMNS: Final = (
    ("trace", "trace", ""),
    ("startup_s", "start-up s", ".0f"),
    ("policy", "policy", ""),
    ("seed", "seed", ""),
    ("attainment", "attained", ".1%"),
    ("of_attainable", "of attainable", ".1%"),
    ("gpu_hours", "GPU-h", ".1f"),
    ("static", "equal static", ""),
    ("gpu_hours_of_static", "GPU-h of it", ".2f"),
    ("static_attainment_at_equal_gpu_hours", "static at equal GPU-h", ".1%"),
    ("prefill", "P", ".1f"),
    ("decode", "D", ".1f"),
    ("events", "events", ""),
    ("reversals", "reversals", ""),
    ("worst_minute", "worst minute", ".0%"),
    ("ttft_p99", "TTFT p99 s", ".2f"),
    ("tpot_p99", "TPOT p99 s", ".3f"),
    ("over_budget", "over budget", ""),
)


@dataclass(frozen=True)
class Panel:
    """One run's plots: a title, and (caption, lines by name) of each."""

    title: str
    plots: tuple[tuple[str, dict[str, Points]], ...]


def panel(compared: Compared, scenario: Scenario, run: Run) -> Panel:
    """Demand, replicas, attainment and cost of one run over time."""
    width = max(60.0, run.seconds / 240)
    came: dict[int, list[float]] = {}
    for job in run.jobs:
        here = came.setdefault(int(job.request.time // width), [0.0, 0.0, 0.0])
        first, each = job.first_token, tpot(job)
        here[0] += 1
        here[1] += job.request.prompt
        here[2] += (
            first is not None
            and first - job.request.time <= scenario.ttft
            and (each is None or each <= scenario.tpot)
        )
    bins = sorted(came.items())
    cost: list[tuple[float, float]] = [(0.0, 0.0)]
    for before, after in zip(run.looks, run.looks[1:], strict=False):
        if after.time > run.seconds:
            break
        cost.append((after.time, cost[-1][1] + before.pods * (after.time - before.time) / 3600))
    looks = _thin([look for look in run.looks if look.time <= run.seconds])
    row = compared.row
    return Panel(
        f"{row.trace}, start-up {row.startup_s:.0f} s, {row.policy}: {row.attainment:.1%} at"
        f" {row.gpu_hours:.1f} GPU-h",
        (
            (
                "demand: 1000 prompt tokens/s",
                {"offered": [(i * width, b[1] / width / 1000) for i, b in bins]},
            ),
            (
                "replicas",
                {
                    "prefillers": [(look.time, look.prefill) for look in looks],
                    "decoders": [(look.time, look.decode) for look in looks],
                    "ready": [
                        (look.time, look.prefill_ready + look.decode_ready) for look in looks
                    ],
                },
            ),
            ("attainment", {"of the requests": [(i * width, b[2] / b[0]) for i, b in bins]}),
            ("cost: GPU-hours", {"so far": _thin(cost)}),
        ),
    )


def page(title: str, rows: Iterable[dict[str, object]], panels: Iterable[Panel]) -> str:
    """The whole file."""
    head = "".join(f"<th>{escape(name)}</th>" for _, name, _ in _COLUMNS)
    body = "".join(
        f'<tr class="{"ours" if r.get("policy") == "ours" else ""}">'
        + "".join(f"<td>{escape(format(r.get(key, ''), how))}</td>" for key, _, how in _COLUMNS)
        + "</tr>"
        for r in rows
    )
    plots = "".join(
        f"<details><summary>{escape(p.title)}</summary><div class=plots>"
        + "".join(_plot(caption, lines) for caption, lines in p.plots)
        + "</div></details>"
        for p in panels
    )
    return (
        f"<!doctype html><html lang=en><meta charset=utf-8><title>{escape(title)}</title>"
        f"<style>{_STYLE}</style><h1>{escape(title)}</h1><table><tr>{head}</tr>{body}</table>"
        f"<h2>Over time</h2>{plots}</html>\n"
    )


def _plot(caption: str, lines: dict[str, Points]) -> str:
    everything = [point for points in lines.values() for point in points] or [(0.0, 0.0)]
    right = max(1e-9, *(x for x, _ in everything), 1e-9)
    top = max(1e-9, *(y for _, y in everything), 1e-9)
    drawn, legend = "", ""
    for (name, points), colour in zip(lines.items(), _COLOURS, strict=False):
        path = " ".join(
            f"{x / right * _WIDTH:.1f},{_HEIGHT - y / top * _HEIGHT:.1f}" for x, y in points
        )
        drawn += f'<polyline fill="none" stroke="{colour}" points="{path}"/>'
        legend += f' <span style="color:{colour}">{escape(name)}</span>'
    return (
        f"<figure><figcaption>{escape(caption)} (0 to {top:.3g}; {right / 3600:.1f} h):{legend}"
        f'</figcaption><svg width={_WIDTH} height={_HEIGHT} viewBox="0 0 {_WIDTH} {_HEIGHT}">'
        f'<rect width={_WIDTH} height={_HEIGHT} fill="#fafafa"/>{drawn}</svg></figure>'
    )


def _thin(values: list[T], most: int = 480) -> list[T]:
    return values[:: max(1, len(values) // most)]
