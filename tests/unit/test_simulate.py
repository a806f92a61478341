import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from pd_operator.autoscale.sample import ProxySample
from pd_operator.simulate import traces
from pd_operator.simulate.__main__ import main
from pd_operator.simulate.latency import Latency, read_table
from pd_operator.simulate.others import HPA, Bounds, Fixed
from pd_operator.simulate.policies import Ours
from pd_operator.simulate.report import row, table
from pd_operator.simulate.setting import Run, Scaling, Setting, Tiers
from pd_operator.simulate.traces import Request, Trace
from pd_operator.simulate.world import World

LATENCY = Latency(((100, 0.1), (1000, 1.0)), base=0.01, per_request=0.001, per_token=0.0)
TARGETS = (2.0, 0.05)


def play(trace: Trace, policy: Scaling, prefill: int = 1, decode: int = 1, **setting: Any) -> Run:
    base = Setting(LATENCY, 30.0, prefill, decode, transfer_per_token=0.0)
    return World(trace, replace(base, **setting), policy).run()


def test_one_request_takes_its_prefill_and_its_steps() -> None:
    run = play((Request(5.0, 500, 11),), Fixed(1, 1))
    (job,) = run.jobs
    assert job.first_token == pytest.approx(5.0 + 0.5 + 0.011)
    assert job.finished == pytest.approx(5.5 + 11 * 0.011)


def test_prompts_wait_for_a_prefiller_and_a_second_one_halves_the_wait() -> None:
    burst = tuple(Request(0.0, 1000, 1) for _ in range(10))
    last = max(job.first_token or 0 for job in play(burst, Fixed(1, 1)).jobs)
    halved = max(job.first_token or 0 for job in play(burst, Fixed(2, 1), prefill=2).jobs)
    assert last == pytest.approx(10, rel=0.01)
    assert halved == pytest.approx(5, rel=0.01)


def test_a_decoder_without_room_lets_requests_wait() -> None:
    pair = tuple(Request(0.0, 100, 1000) for _ in range(2))
    roomy = play(pair, Fixed(2, 1), prefill=2)
    tight = play(pair, Fixed(2, 1), prefill=2, kv_limit=1150.0)
    assert max(j.first_token or 0 for j in roomy.jobs) < 1
    assert max(j.first_token or 0 for j in tight.jobs) > 10


class Step:
    """Changes the prefillers at a time."""

    interval = 1.0

    def __init__(self, *steps: tuple[float, int]) -> None:
        self.steps = steps
        self.seen: list[Tiers] = []

    def tick(self, now: float, sample: ProxySample, tiers: Tiers) -> tuple[int, int]:
        self.seen.append(tiers)
        return next((p for t, p in reversed(self.steps) if now >= t), 1), 1


def test_a_pod_is_ready_after_its_start_up_and_a_drained_one_finishes() -> None:
    steady = tuple(Request(float(t), 900, 2) for t in range(100))
    policy = Step((0.0, 1), (10.0, 3), (60.0, 1))
    run = play(steady, policy)
    ready = [tiers.prefill_ready for tiers in policy.seen]
    assert (ready[39], ready[41], ready[70]) == (1, 3, 1)
    assert all(job.finished is not None for job in run.jobs)
    assert run.changes == [(10.0, "prefill", 1, 3), (60.0, "prefill", 3, 1)]
    # One of each for 99 s, and two more prefillers for the 50 s between and what they drain.
    assert 2 * 99 + 2 * 50 <= run.pod_seconds <= 2 * 99 + 2 * 53


def test_the_budget_is_never_exceeded() -> None:
    steady = tuple(Request(float(t), 100, 2) for t in range(100))
    run = play(steady, Step((0.0, 9)), budget=4)
    assert run.pod_seconds <= 4 * 99


def test_ours_grows_under_load_shrinks_after_it_and_meets_more_than_a_single_pair() -> None:
    busy = tuple(Request(t / 2, 1000, 20) for t in range(2400))
    idle = tuple(Request(1200 + 30.0 * t, 100, 20) for t in range(60))
    policy = Ours(Bounds(*TARGETS))
    ours = row("t", "ours", 30, TARGETS, play(busy + idle, policy))
    alone = row("t", "1x1", 30, TARGETS, play(busy + idle, Fixed(1, 1)))
    assert ours.attainment > 0.75 > 0.1 > alone.attainment
    assert ours.gpu_hours < 4 * alone.gpu_hours
    assert 2 < ours.prefill < 5


def test_two_runs_are_equal() -> None:
    trace = traces.sine(low=1, high=4, period=200, seconds=400, prompt=500, output=50, seed=1)
    rows = [row("sine", "hpa", 30, TARGETS, play(trace, HPA(Bounds(*TARGETS)))) for _ in range(2)]
    assert rows[0] == rows[1]
    assert rows[0].events > 0


def test_the_step_time_is_fitted_to_the_table(tmp_path: Path) -> None:
    lines = ["model,system,backend,tp,phase,batch,isl_or_ctx,latency_ms"]
    lines += [f"m,s,vllm,1,prefill,1,{n},{n / 10}" for n in (100, 1000)]
    lines += [
        f"m,s,vllm,1,decode,{b},{c},{10 + b + b * c / 1000}" for b in (1, 8) for c in (100, 1000)
    ]
    path = tmp_path / "table.csv"
    path.write_text("\n".join(lines))
    latency = read_table(path, "m", "s")
    assert latency.prefill(550) == pytest.approx(0.055)
    assert latency.prefill(2000) == pytest.approx(0.2)
    assert latency.step(8, 8000) == pytest.approx(0.026)
    with pytest.raises(ValueError, match="no latencies of x on s"):
        read_table(path, "x", "s")


def test_reads_the_traces_formats(tmp_path: Path) -> None:
    lines = tmp_path / "m.jsonl"
    lines.write_text('{"timestamp": 1500, "input_length": 7, "output_length": 0}\n')
    assert traces.mooncake(lines) == (Request(1.5, 7, 1),)
    azure = tmp_path / "a.csv"
    azure.write_text(
        "TIMESTAMP,ContextTokens,GeneratedTokens\n"
        "2023-11-16 18:17:03.9799600,10,2\n2023-11-16 18:17:04.9799600,20,3\n"
    )
    assert traces.azure(azure) == (Request(0.0, 10, 2), Request(1.0, 20, 3))
    assert len(traces.azure(azure, copies=8)) == 16
    servegen = tmp_path / "s.csv"
    servegen.write_text(
        "t_s,total_rps,mean_input_tokens,mean_output_tokens\n"
        + "".join(f"{600 * i},{10 + i},100,50\n" for i in range(12))
    )
    trace = traces.servegen(servegen, hours=1, rate=1.0, seed=3)
    assert len(trace) == pytest.approx(3600, rel=0.15)
    assert trace == traces.servegen(servegen, hours=1, rate=1.0, seed=3)


def test_the_command_prints_a_table_and_writes_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    latencies = tmp_path / "l.csv"
    latencies.write_text(
        "model,system,phase,batch,isl_or_ctx,latency_ms\n"
        "m,s,prefill,1,100,1\nm,s,prefill,1,1000,10\n"
        "m,s,decode,1,100,10\nm,s,decode,8,100,12\nm,s,decode,8,1000,14\n"
    )
    trace = tmp_path / "t.jsonl"
    trace.write_text(
        "".join(
            json.dumps({"timestamp": 100 * i, "input_length": 500, "output_length": 5}) + "\n"
            for i in range(50)
        )
    )
    out = tmp_path / "rows.json"
    common = ["mooncake", "--latencies", str(latencies), "--model", "m", "--system", "s"]
    given = [*common, "--trace", str(trace), "--policy", "2x1", "--policy", "ours"]
    assert main([*given, "--json", str(out)]) == 0
    rows = json.loads(out.read_text())
    assert [r["policy"] for r in rows] == ["2x1", "ours"]
    assert [r["attainment"] for r in rows] == [1.0, 1.0]
    assert "100.0 %" in capsys.readouterr().out
    assert main([*common, "--policy", "ours"]) == 1
    assert "mooncake needs --trace" in capsys.readouterr().err


def test_a_table_is_aligned() -> None:
    rows = [
        row("t", name, 30, TARGETS, play((Request(0.0, 100, 2),), Fixed(1, 1)))
        for name in ("a", "longer")
    ]
    assert len({len(line) for line in table(rows).splitlines()}) == 1
