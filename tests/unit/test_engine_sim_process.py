"""The simulated engine as its image runs it: vLLM's command line, nothing but Python beside it."""

import asyncio
import json
import shutil
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from pd_shared import labels
from tests.engine_sim.client import Reply, ask, get
from tests.engine_sim.options import OptionError, Options, parse
from tests.golden.update import children
from tests.golden.update import example as deployment
from tools.paths import REPOSITORY

PRODUCER = {"kv_connector": "MooncakeConnector", "kv_role": "kv_producer",
            "kv_load_failure_policy": "recompute"}  # fmt: skip
CONSUMER = {**PRODUCER, "kv_role": "kv_consumer"}


@pytest.fixture
def app(tmp_path: Path) -> Path:
    """What the image holds, with its command `vllm`."""
    for source, target in (
        ("operator/pd_shared", "pd_shared"),
        ("tests/engine_sim", "tests/engine_sim"),
    ):
        shutil.copytree(REPOSITORY / source, tmp_path / "app" / target)
    script = (REPOSITORY / "images" / "engine-sim" / "vllm").read_text()
    command = tmp_path / "vllm"
    command.write_text(script.replace('"/app"', json.dumps(str(tmp_path / "app"))))
    return command


@asynccontextmanager
async def served(
    command: Path, transfer: dict[str, Any], *more: str, **environment: str
) -> AsyncIterator[tuple[asyncio.subprocess.Process, dict[str, int]]]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-I", str(command), "serve", "/models/tiny"),
        *("--served-model-name=tiny", "--host=127.0.0.1", "--port=0", *more),
        f"--kv-transfer-config={json.dumps(transfer)}",
        stdout=asyncio.subprocess.PIPE,
        env={"VLLM_MOONCAKE_BOOTSTRAP_PORT": "0", **environment},
    )
    try:
        assert process.stdout is not None
        line = await process.stdout.readline()
        yield process, json.loads(line)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def complete(port: int, prompt: str, params: dict[str, Any], **more: Any) -> Reply:
    body = {"model": "tiny", "prompt": prompt, "kv_transfer_params": params, **more}
    return await ask(port, "/v1/completions", body)


async def test_a_pair_of_processes_moves_kv(app: Path) -> None:
    async with (
        served(app, PRODUCER, VLLM_HOST_IP="127.0.0.1") as (_, prefiller),
        served(app, CONSUMER) as (_, decoder),
    ):
        query = (await get(prefiller["bootstrapPort"], "/query")).json()
        wanted = {"do_remote_decode": True, "do_remote_prefill": False, "transfer_id": "t"}
        first = await complete(prefiller["port"], "a b c", wanted, max_tokens=1, min_tokens=1)
        assert first.status == 200
        there = {
            "do_remote_decode": False, "do_remote_prefill": True, "transfer_id": "t",
            "remote_engine_id": query["0"]["engine_id"],
            "remote_bootstrap_addr": f"http://127.0.0.1:{prefiller['bootstrapPort']}",
        }  # fmt: skip
        second = await complete(decoder["port"], "a b c", there, max_tokens=3)
        alone = await complete(decoder["port"], "a b c", {}, max_tokens=3)
        assert second.text() == alone.text()
        metrics = (await get(decoder["port"], "/metrics")).body.decode()
        assert 'source="external_kv_transfer"} 3.0' in metrics
        assert 'finished_reason="length"} 2.0' in metrics


async def test_faults_by_command(app: Path) -> None:
    async with served(app, PRODUCER) as (process, ports):
        before = (await get(ports["port"], "/sim/state")).json()
        assert (await ask(ports["port"], "/sim/faults", {"nonsense": 1})).status == 400
        await ask(ports["port"], "/sim/faults", {"status_times": 1, "status": 503})
        assert (await complete(ports["port"], "p", {})).status == 503
        assert (await complete(ports["port"], "p", {})).status == 200
        await ask(ports["port"], "/sim/restart", {})

        async def restarted() -> bool:
            try:
                state = (await get(ports["port"], "/sim/state")).json()
            except (OSError, EOFError):
                return False
            return bool(state["engine_id"] != before["engine_id"])

        while not await restarted():  # noqa: ASYNC110 - a process of its own
            await asyncio.sleep(0.01)
        await ask(ports["port"], "/sim/die", {})
        assert await process.wait() == 137


async def test_sigterm_lets_what_runs_end(app: Path) -> None:
    async with served(app, CONSUMER, "--shutdown-timeout=60", SIM_DECODE="0.05") as (one, ports):
        asking = asyncio.create_task(complete(ports["port"], "p", {}, max_tokens=10, stream=True))
        while True:  # until it runs
            metrics = (await get(ports["port"], "/metrics")).body.decode()
            if 'num_requests_running{engine="0",model_name="tiny"} 1.0' in metrics:
                break
            await asyncio.sleep(0.01)
        one.send_signal(signal.SIGTERM)
        reply = await asking
        assert reply.whole
        assert len(reply.events()) == 10
        assert await one.wait() == 0


async def test_sigterm_without_a_timeout_cuts(app: Path) -> None:
    async with served(app, CONSUMER) as (one, ports):
        await ask(ports["port"], "/sim/faults", {"hang": True})
        asking = asyncio.create_task(complete(ports["port"], "p", {}))
        await asyncio.sleep(0.05)
        one.send_signal(signal.SIGTERM)
        assert await one.wait() == 0
        with pytest.raises((OSError, EOFError)):
            await asking


def container(name: str, component: str) -> tuple[list[str], dict[str, str]]:
    """Arguments and plain environment of an example's engine."""
    for child in children(deployment(name)):
        if child["kind"] == "StatefulSet" and component in child["metadata"]["name"]:
            (engine,) = (
                c for c in child["spec"]["template"]["spec"]["containers"] if c["name"] == "engine"
            )
            env = {e["name"]: e["value"] for e in engine.get("env", ()) if "value" in e}
            return engine["args"], env
    raise AssertionError(f"{name} has no {component}")


@pytest.mark.parametrize(
    ("example", "component", "connector", "produces"),
    [
        ("tiny-cpu", "prefiller", labels.MOONCAKE_CONNECTOR, True),
        ("tiny-cpu", "decoder", labels.MOONCAKE_CONNECTOR, False),
        ("nixl-cpu", "prefiller", labels.NIXL, True),
        ("nixl-cpu", "decoder", labels.NIXL, False),
        ("colocated-cpu", "decoder", labels.COLOCATED, False),
        ("store-cpu", "decoder", labels.MULTI, False),
        ("mooncake-store-cpu", "prefiller", labels.MOONCAKE_STORE, True),
    ],
)
def test_what_the_operator_renders_is_understood(
    example: str, component: str, connector: str, produces: bool
) -> None:
    arguments, environment = container(example, component)
    options = parse(["serve", *arguments], environment)
    assert (options.connector, options.produces) == (connector, produces)
    assert options.model == "/models/tiny"
    assert options.port == 8000
    assert options.max_model_len == 2048
    assert options.recompute == (connector != labels.COLOCATED)


def parsed(*arguments: str, **environment: str) -> Options:
    return parse(["serve", "/m", *arguments], environment)


def test_options() -> None:
    options = parsed(
        *("--served-model-name", "a", "b", "--enforce-eager", "--max-num-seqs", "4"),
        *("--kv-cache-memory-bytes=64M", "-dp", "2", "--headless", "--whatever", "x"),
        SIM_PREFILL="0.1,0.2", SIM_DECODE="0.3,0.4",
    )  # fmt: skip
    assert options.served == ("a", "b")
    assert options.max_num_seqs == 4
    assert options.kv_tokens == 65536
    assert options.ranks == 2
    assert options.headless
    assert options.pace.prefill(10) == pytest.approx(2.1)
    assert options.pace.decode(2) == pytest.approx(1.1)
    assert options.connector == labels.COLOCATED


@pytest.mark.parametrize(
    ("arguments", "environment", "names"),
    [
        (["--kv-transfer-config={"], {}, "no JSON"),
        (['--kv-transfer-config={"kv_connector":"X"}'], {}, "no connector is named 'X'"),
        (['--kv-transfer-config={"kv_connector":"NixlConnector"}'], {}, "kv_role"),
        (["--port=x"], {}, "'x' is no number"),
        (["--kv-cache-memory-bytes=1Q"], {}, "no size"),
        ([], {"SIM_PREFILL": "1,2,3,4"}, "at most 3"),
        ([], {"SIM_DECODE": "fast"}, "SIM_DECODE"),
        ([], {"SIM_DECODE": "-1"}, "none below 0"),
    ],
)
def test_wrong_options_are_named(
    arguments: list[str], environment: dict[str, str], names: str
) -> None:
    with pytest.raises(OptionError, match=names):
        parse(["serve", "/m", *arguments], environment)
    with pytest.raises(OptionError, match="no model"):
        parse(["serve"], {})
