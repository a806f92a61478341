"""What is told of each request: its times, and its line in the access log."""

import asyncio
import json
from typing import Any

import pytest

from pd_proxy import access_log
from pd_proxy.access_log import trace_id
from tests.engine_sim.client import Client, ask, get
from tests.engine_sim.rig import Rig, completion, rig, until

PATH = "/v1/completions"
TRACE = "0af7651916cd43dd8448eb211c80319c"
PARENT = f"00-{TRACE}-b7ad6b7169203331-01"
LOG = {"accessLog": True}


def lines(r: Rig, capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    assert r.proxy._access_log is not None
    r.proxy._access_log.flush()
    told = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    return [line for line in told if line["event"] in ("request", "refused", "lines dropped")]


async def test_each_part_of_a_streams_time_is_measured() -> None:
    async with rig(per_token=0.002) as r:
        r.decoders[0].faults.slow_kv = 0.05  # or the first token may come before the prefill's end
        assert (await r.complete("one two", max_tokens=6, stream=True)).status == 200
        for name, count in {"ttft": 1, "kv_wait": 1, "itl": 5, "tpot": 1, "queue": 1}.items():
            assert await r.metric(f"pd_proxy_{name}_seconds_count") == count, name
        itl = await r.metric("pd_proxy_itl_seconds_sum")
        tpot = await r.metric("pd_proxy_tpot_seconds_sum")
        assert itl == pytest.approx(5 * tpot)
        ttft = await r.metric("pd_proxy_ttft_seconds_sum")
        prefill = await r.metric("pd_proxy_prefill_seconds_sum")
        assert ttft == pytest.approx(prefill + await r.metric("pd_proxy_kv_wait_seconds_sum"))


async def test_a_decoder_alone_waits_for_no_kv() -> None:
    async with rig() as r:
        r.prefillers[0].faults.status_times = -1
        assert (await r.complete("p", stream=True)).status == 200
        assert await r.metric("pd_proxy_kv_wait_seconds_count") == 0
        assert await r.metric("pd_proxy_ttft_seconds_count") == 1


@pytest.mark.parametrize("path", [PATH, "/v1/embeddings"])
async def test_the_trace_goes_on_to_the_engines(path: str) -> None:
    async with rig() as r:
        given = {"traceparent": PARENT, "tracestate": "a=b,c=d", "baggage": "k=v"}
        assert (await ask(r.port, path, completion("p"), **given)).status == 200
        for seen in (*r.prefillers[0].seen, *r.decoders[0].seen):
            assert {key: seen.headers[key] for key in given} == given


async def test_the_access_log_tells_what_became_of_a_request(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with rig(sections=LOG) as r:
        await ask(
            r.port, PATH, completion("a secret prompt", stream=True),
            x_request_id="mine", traceparent=PARENT, authorization="Bearer sk-secret",
        )  # fmt: skip
        (line,) = lines(r, capsys)
        wanted = {
            "event": "request", "request": "mine", "trace": TRACE, "client": "127.0.0.1",
            "method": "POST", "path": PATH, "status": 200, "outcome": "ok", "prompt_tokens": 3,
            "completion_tokens": 4, "prefiller": "prefiller-0", "decoder": "decoder-0",
            "attempts": 1,
        }  # fmt: skip
        assert {key: line.get(key) for key in wanted} == wanted
        assert "fallback" not in line
        assert "secret" not in json.dumps(line)
        times = [line[f"{part}seconds"] for part in ("queue_", "prefill_", "ttft_", "")]
        assert times == sorted(times)


async def test_the_access_log_tells_of_all_that_ends_otherwise(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with rig(sections=LOG) as r:
        await ask(r.port, PATH, completion("p", n=2))
        await ask(r.port, PATH, [])
        await get(r.port, "/v1/models")
        await get(r.port, "/secret" + "x" * 500)
        r.decoders[0].faults.status_times = 1
        await r.complete("again")
        r.decoders[0].faults.die_after_tokens = 2
        await r.complete("p", stream=True)
        r.decoders[0].faults.die_after_tokens = None
        r.decoders[0].faults.hang = True
        client = await Client.open(r.port)
        client.post(PATH, completion("gone"))
        await until(lambda: r.decoders[0].running)
        client.abort()
        await until(lambda: r.proxy.metrics.requests.values["cancelled"] == 1)
        raw = await Client.open(r.port)
        raw.writer.write(b"NONSENSE\r\n\r\n")
        assert (await raw.reply()).status == 400
        raw.close()
        alone, invalid, models, unknown, retried, broken, gone, refused = lines(r, capsys)
        assert (alone["fallback"], alone["decoder"]) == ("n", "decoder-0")
        assert (invalid["status"], invalid["outcome"]) == (400, "client_error")
        assert (models["path"], models["status"]) == ("/v1/models", 200)
        assert "prompt_tokens" not in models
        assert unknown["status"] == 404
        assert len(unknown["path"]) <= 256
        assert (retried["attempts"], retried["status"]) == (2, 200)
        assert (broken["status"], broken["outcome"]) == (200, "upstream_error")
        assert gone["outcome"] == "cancelled"
        assert "status" not in gone
        assert (refused["event"], refused["status"]) == ("refused", 400)


async def test_tenants_are_named_and_their_keys_are_not(
    tmp_path: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "acme").write_text("sk-secret")
    keys = {"apiKeys": {"folder": str(tmp_path), "isolateCache": True}}
    async with rig(sections=LOG | keys) as r:
        await ask(r.port, PATH, completion("p"), authorization="Bearer sk-secret")
        await ask(r.port, PATH, completion("p"), authorization="Bearer sk-wrong")
        good, refused = lines(r, capsys)
        assert good["tenant"] == "acme"
        assert refused["status"] == 401
        assert "sk-" not in json.dumps([good, refused])


async def test_lines_are_written_by_themselves_and_not_without_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(access_log, "_MOST", 3)
    monkeypatch.setattr(access_log, "FLUSH_SECONDS", 0.01)
    written: list[str] = []
    log = access_log.AccessLog(written.append)
    for _ in range(5):
        log.refused(400)
    assert written == []
    while not written:  # noqa: ASYNC110 - a timer's work has no event
        await asyncio.sleep(0.005)
    told = [json.loads(line) for line in written[0].splitlines()]
    assert [line["event"] for line in told] == ["refused"] * 3 + ["lines dropped"]
    assert told[-1]["count"] == 2
    log.flush()
    assert len(written) == 1


async def test_nothing_is_written_where_it_is_not_asked_for(
    capsys: pytest.CaptureFixture[str],
) -> None:
    async with rig() as r:
        await r.complete("p")
        assert r.proxy._access_log is None
        assert '"request"' not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("given", "found"),
    [
        (PARENT.encode(), TRACE),
        (b"cc-" + PARENT[3:].encode() + b"-what-the-future-will-be", TRACE),
        (b"00-" + b"0" * 32 + b"-b7ad6b7169203331-01", None),
        (PARENT.upper().encode(), None),
        (b"nonsense", None),
        (None, None),
    ],
)
def test_trace_ids(given: bytes | None, found: str | None) -> None:
    assert trace_id(given) == found
