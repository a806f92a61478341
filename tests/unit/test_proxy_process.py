"""The process as a whole: start, readiness, metrics text, drain, exit."""

import asyncio
import json
import signal
import sys
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from pd_operator.autoscale.sample import read
from pd_shared import metrics as names
from tests.engine_sim import DECODER, PREFILLER, Engine, answers
from tests.engine_sim.client import Client, ask, get
from tests.engine_sim.rig import LIMITS, ROUTING, SECONDS, completion, rig, until
from tools.paths import REPOSITORY


async def test_admin_port() -> None:
    async with rig() as r:
        admin = r.proxy.admin_port
        assert (await get(admin, "/healthz")).status == 200
        assert (await get(admin, "/readyz")).body == b"ok\n"
        assert (await get(admin, "/v1/models")).status == 404
        assert (await ask(admin, "/metrics", {})).status == 405
        r.update(r.decoders[0], state="unready")
        reply = await get(admin, "/readyz")
        assert (reply.status, reply.body) == (503, b"no decoder is ready\n")


async def test_every_metric_is_there_and_well_formed() -> None:
    async with rig() as r:
        await until(lambda: r.proxy.metrics.kv_moved.values)
        r.decoders[0].faults.status_times = 1
        await r.complete("a b", stream=True)
        await r.complete("a b", n=2)
        reply = await get(r.proxy.admin_port, "/metrics")
        assert reply.headers["content-type"].startswith("text/plain; version=0.0.4")
        text = reply.body.decode()
        families = {f.name: f for f in text_string_to_metric_families(text)}
        wanted = [
            v for k, v in vars(names).items() if isinstance(v, str) and v.startswith("pd_proxy_")
        ]
        for name in wanted:
            assert families[name.removesuffix("_total")].samples, name
        assert len(wanted) > 20
        sample = read(text)
        assert sample.offered == 2
        assert sample.kv_expected == {"decoder-0": 2}
        assert sample.ttft is not None
        assert sample.ttft.bounds == names.TTFT_BUCKETS


async def test_drain_ends_streams_and_turns_new_clients_away() -> None:
    async with rig(per_token=0.01) as r:
        idle = await Client.open(r.port)
        idle.send("GET", "/v1/models")
        assert "connection" not in (await idle.reply()).headers
        client = await Client.open(r.port)
        client.post("/v1/completions", completion("p", stream=True, max_tokens=30))
        await client.head()
        draining = asyncio.create_task(r.proxy.drain())
        await until(lambda: r.proxy.not_ready() == "draining")
        assert (await get(r.proxy.admin_port, "/readyz")).status == 503
        assert await idle.reader.read() == b""
        with pytest.raises(OSError):  # noqa: PT011 - refused or reset
            await get(r.port, "/v1/models")
        body = b""
        while data := await client.chunk():
            body += data
        assert body.endswith(b"data: [DONE]\n\n")
        assert await client.reader.read() == b""
        await draining
        idle.close()
        client.close()


async def test_answers_while_draining_close_their_connection() -> None:
    async with rig() as r:
        r.proxy._linger_seconds = 5
        client = await Client.open(r.port)
        draining = asyncio.create_task(r.proxy.drain())
        await until(lambda: r.proxy.not_ready() == "draining")
        client.post("/v1/completions", completion("p"))
        reply = await client.reply()
        assert reply.status == 200
        assert reply.headers["connection"] == "close"
        draining.cancel()
        await asyncio.gather(draining, return_exceptions=True)
        client.close()


async def test_drain_cuts_what_takes_too_long() -> None:
    async with rig() as r:
        r.proxy._drain_seconds = 0.1
        r.decoders[0].faults.stall_after_tokens = 1
        client = await Client.open(r.port)
        client.post("/v1/completions", completion("p", stream=True))
        await client.head()
        await r.proxy.drain()
        assert not (await _rest(client)).endswith(b"data: [DONE]\n\n")
        client.close()


async def _rest(client: Client) -> bytes:
    try:
        return await client.reader.read()
    except ConnectionError:
        return b""


async def test_an_error_of_its_own_is_500_and_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    async with rig() as r:

        async def broken(*_: Any) -> str:
            raise ZeroDivisionError("a secret prompt")

        monkeypatch.setattr(r.proxy.api._dispatcher, "run", broken)
        reply = await r.complete("p")
        assert reply.status == 500
        assert "secret" not in reply.error["message"]
        assert await r.metric("pd_proxy_internal_errors_total") == 1


def _config(tmp_path: Path) -> Path:
    file = tmp_path / "config.json"
    file.write_text(
        json.dumps(
            {
                "deployment": "tiny",
                "namespace": "ns",
                "deploymentUid": "u",
                "servedNames": ["tiny"],
                "listen": {"host": "127.0.0.1", "port": 0},
                "admin": {"host": "127.0.0.1", "port": 0},
                "timeouts": SECONDS,
                "limits": LIMITS,
                "routing": ROUTING,
            }
        )
    )
    return file


async def _start(*arguments: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        sys.executable, "-m", "pd_proxy", *arguments,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        env={"PYTHONPATH": str(REPOSITORY / "operator"), "PATH": "/usr/bin"},
    )  # fmt: skip


async def test_process_serves_from_a_file_and_ends_with_0(tmp_path: Path) -> None:
    engines = [Engine(PREFILLER, "p"), Engine(DECODER, "d")]
    for engine in engines:
        await engine.start()
    file = tmp_path / "backends.json"
    file.write_text(
        json.dumps(
            [
                {"name": e.name, "tier": e.tier, "host": "127.0.0.1", "port": e.port,
                 "bootstrapPort": e.bootstrap_port or 1}
                for e in engines
            ]
        )
    )  # fmt: skip
    process = await _start("--config", str(_config(tmp_path)), "--backends", str(file))
    assert process.stdout is not None
    line = json.loads(await process.stdout.readline())
    assert line["event"] == "listening"
    reply = await ask(line["port"], "/v1/completions", completion("a secret prompt", stream=True))
    assert reply.text() == "".join(answers.tokens("a secret prompt", 4))
    assert reply.headers["x-pd-prefiller"] == "p"
    process.send_signal(signal.SIGTERM)
    out, err = await process.communicate()
    assert process.returncode == 0, err.decode()
    assert err == b""
    assert b"secret" not in out
    assert [json.loads(x)["event"] for x in out.splitlines()] == ["draining", "drained"]
    for engine in engines:
        engine.kill()


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--config", "/nonexistent.json"), "/nonexistent.json cannot be read"),
        (("--config", "{config}", "--backends", "/nonexistent"), "/nonexistent cannot be read"),
        (("--config", "{config}"), "give KUBECONFIG, or --backends FILE"),
    ],
)
async def test_what_is_wrong_is_said_in_one_line(
    tmp_path: Path, arguments: tuple[str, ...], says: str
) -> None:
    config = str(_config(tmp_path))
    process = await _start(*(a.format(config=config) for a in arguments))
    _, err = await process.communicate()
    assert process.returncode == 2
    assert says in err.decode()
    assert len(err.decode().splitlines()) == 1
