"""The client's side of the proxy: HTTP/1.1 to the letter, and nothing that smuggles."""

import asyncio
import json
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pd_proxy.errors import ProxyError
from pd_proxy.http.reader import Reader
from pd_proxy.http.request import Request
from tests.engine_sim import answers
from tests.engine_sim.client import Client, ask, get
from tests.engine_sim.rig import Rig, completion, rig, until

PATH = "/v1/completions"
BODY = json.dumps(completion("p")).encode()


async def raw(r: Rig, data: bytes) -> tuple[int, dict[str, Any], bytes]:
    """What bytes are answered with, and what comes behind the answer until the connection ends."""
    client = await Client.open(r.port)
    client.writer.write(data)
    reply = await client.reply()
    rest = await client.reader.read()
    client.close()
    return reply.status, reply.error, rest


def post(
    *lines: bytes, body: bytes = BODY, first: bytes = b"POST /v1/completions HTTP/1.1"
) -> bytes:
    return b"\r\n".join((first, JSON, *lines)) + b"\r\n\r\n" + body


JSON = b"content-type: application/json"
LENGTH = b"content-length: %d" % len(BODY)
CHUNKED = b"transfer-encoding: chunked"
CHUNKS = b"%x\r\n%b\r\n0\r\n\r\n" % (len(BODY), BODY)


@pytest.mark.parametrize(
    "data",
    [
        pytest.param(post(b"host: x", LENGTH, CHUNKED), id="both lengths"),
        pytest.param(post(b"host: x", CHUNKED, LENGTH, body=CHUNKS), id="both lengths, chunks"),
        pytest.param(post(b"host: x", LENGTH, b"content-length: 5"), id="two lengths"),
        pytest.param(post(b"host: x", LENGTH, LENGTH), id="the same length twice"),
        pytest.param(post(b"host: x", b"content-length: +5"), id="signed length"),
        pytest.param(post(b"host: x", b"content-length: 5 5"), id="length with space"),
        pytest.param(post(b"host: x", b"content-length : 5"), id="space before colon"),
        pytest.param(post(b"host: x", b"transfer-encoding: gzip, chunked", body=CHUNKS), id="gzip"),
        pytest.param(post(b"host: x", b"transfer-encoding: xchunked", body=CHUNKS), id="xchunked"),
        pytest.param(post(b"host: x", CHUNKED, CHUNKED, body=CHUNKS), id="chunked twice"),
        pytest.param(post(b"host: x", CHUNKED, body=b"zz\r\n"), id="bad chunk size"),
        pytest.param(post(b"host: x", CHUNKED, body=b"1\r\nabc\r\n0\r\n\r\n"), id="chunk too long"),
        pytest.param(post(b"host: x", CHUNKED, body=b"-1\r\na\r\n"), id="negative chunk"),
        pytest.param(post(b"host: x", CHUNKED, body=b"5\nhello\n0\n\n"), id="bare LF chunks"),
        pytest.param(post(b"host: x", b" folded: 1", LENGTH), id="folded header"),
        pytest.param(post(b"host: x", b"a\x00b: 1", LENGTH), id="NUL in a name"),
        pytest.param(post(b"host: x", b"a: 1\x002", LENGTH), id="NUL in a value"),
        pytest.param(post(b"host: x", b"a: 1\r2", LENGTH), id="bare CR"),
        pytest.param(post(LENGTH), id="no host"),
        pytest.param(post(b"host: x", b"host: y", LENGTH), id="two hosts"),
        pytest.param(post(b"host: x", first=b"GET / HTTP/9.9"), id="version"),
        pytest.param(post(b"host: x", first=b"NONSENSE / HTTP/1.1"), id="method"),
        pytest.param(post(b"host: x", first=b"GET / HTTP/2.0"), id="HTTP/2.0"),
        pytest.param(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", id="TLS"),
        pytest.param(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", id="HTTP/2"),
        pytest.param(post(b"host: x", CHUNKED, body=b"1;" + b"x" * 40000), id="chunk extension"),
    ],
)
async def test_what_two_parsers_could_read_differently_is_400(data: bytes) -> None:
    async with rig() as r:
        smuggled = b"GET /v1/models HTTP/1.1\r\nhost: x\r\n\r\n"
        status, error, rest = await raw(r, data + smuggled)
        assert status == 400
        assert error["type"] == "BadRequestError"
        assert rest == b""
        assert r.prefillers[0].seen == r.decoders[0].seen == []
        assert r.proxy.metrics.requests.values["client_error"] == 1


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b'"x"', b"\xff", b'{"a":NaN}', b"[" * 5000])
async def test_a_body_that_is_no_json_object_is_400(body: bytes) -> None:
    async with rig() as r:
        client = await Client.open(r.port)
        client.send("POST", PATH, body)
        reply = await client.reply()
        assert reply.status == 400
        assert "JSON" in reply.error["message"]
        client.post(PATH, completion("p"))
        assert (await client.reply()).status == 200
        client.close()
        assert await r.metric("pd_proxy_requests_total", outcome="client_error") == 1


async def test_body_over_the_limit_is_413_by_its_length_alone() -> None:
    async with rig(limits={"bodyBytes": 1000}) as r:
        data = post(b"host: x", b"content-length: 1001", b"expect: 100-continue", body=b"")
        status, error, rest = await raw(r, data)
        assert (status, error["code"], rest) == (413, 413, b"")


async def test_chunked_body_over_the_limit_is_413() -> None:
    async with rig(limits={"bodyBytes": 1000}) as r:
        status, _, rest = await raw(r, post(b"host: x", CHUNKED, body=b"3e9\r\n" + b"x" * 1001))
        assert (status, rest) == (413, b"")


async def test_client_that_goes_on_sending_still_reads_its_413() -> None:
    async with rig(limits={"bodyBytes": 1000}) as r:
        client = await Client.open(r.port)
        client.writer.write(post(b"host: x", b"content-length: 9000000", body=b""))
        for _ in range(50):
            client.writer.write(b"x" * 10000)
        assert (await client.reply()).status == 413
        client.close()


@pytest.mark.parametrize(
    "data",
    [
        post(b"host: x", b"a: " + b"x" * 20000),
        b"GET /" + b"x" * 20000 + b" HTTP/1.1\r\nhost: x\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: x\r\na: " + b"x" * 20000,
        b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * 5000,
    ],
    ids=["header", "target", "unfinished", "many"],
)
async def test_head_over_the_limit_is_431(data: bytes) -> None:
    async with rig() as r:
        status, error, _ = await raw(r, data)
        assert (status, error["code"]) == (431, 431)


async def test_large_bodies_of_all_together_are_limited() -> None:
    async with rig() as r:
        server = r.proxy._server
        server.bodies_bytes = 500_000
        r.decoders[0].faults.hang = True
        asking = [asyncio.create_task(r.complete("p" * 200_000)) for _ in range(2)]
        await until(lambda: len(r.decoders[0].seen) == 2)
        reply = await r.complete("p" * 200_000)
        assert reply.status == 503
        assert reply.headers["retry-after"] == "1"
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
        await until(lambda: server.held == 0)
        r.decoders[0].faults.hang = False
        assert (await r.complete("p" * 200_000)).status == 200
        await until(lambda: server.held == 0)


async def test_trailers_are_dropped() -> None:
    async with rig() as r:
        client = await Client.open(r.port)
        trailer = CHUNKS[:-2] + b"x-request-id: evil\r\n\r\n"
        client.writer.write(post(b"host: x", CHUNKED, body=trailer))
        assert (await client.reply()).status == 200
        client.close()
        assert r.decoders[0].seen[0].headers["x-request-id"] != "evil"


async def test_expect_continue() -> None:
    async with rig() as r:
        client = await Client.open(r.port)
        client.writer.write(post(b"host: x", LENGTH, b"expect: 100-continue", body=b""))
        assert await client.reader.readuntil(b"\r\n\r\n") == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.writer.write(BODY)
        assert (await client.reply()).status == 200
        client.close()
        assert "expect" not in r.decoders[0].seen[0].headers


@pytest.mark.parametrize("chunked", [False, True])
async def test_an_offer_to_upgrade_is_ignored(chunked: bool) -> None:
    async with rig() as r:
        client = await Client.open(r.port)
        offer = (b"host: x", b"connection: Upgrade, HTTP2-Settings", b"upgrade: h2c")
        framing, body = (CHUNKED, CHUNKS) if chunked else (LENGTH, BODY)
        data = post(*offer, b"http2-settings: AAMAAABkAAQAoAAAAAIAAAAA", framing, body=body)
        client.writer.write(data[:-20])
        await asyncio.sleep(0)
        client.writer.write(data[-20:])
        assert (await client.reply()).status == 200
        client.writer.write(post(b"host: x", LENGTH))
        assert (await client.reply()).status == 200
        client.close()
        headers = r.decoders[0].seen[0].headers
        assert not {"upgrade", "connection", "http2-settings"} & set(headers)


async def test_headers_of_the_connection_stay_on_it() -> None:
    async with rig() as r:
        await ask(
            r.port, PATH, completion("p"), connection="keep-alive, X-Secret", x_secret="1", te="x"
        )
        for engine in (r.prefillers[0], r.decoders[0]):
            assert not {"connection", "x-secret", "te"} & set(engine.seen[0].headers)


async def test_keep_alive_and_pipelining_answer_in_order() -> None:
    async with rig() as r:
        client = await Client.open(r.port)
        prompts = [f"p{i}" for i in range(20)]
        for prompt in prompts:
            client.post(PATH, completion(prompt))
        client.send("GET", "/v1/models")
        for prompt in prompts:
            assert (await client.reply()).text() == "".join(answers.tokens(prompt, 4))
        assert (await client.reply()).json()["object"] == "list"
        client.close()


async def test_pipelined_error_comes_in_its_turn() -> None:
    async with rig() as r:
        client = await Client.open(r.port)
        client.writer.write(post(b"host: x", LENGTH) + b"RUBBISH\r\n\r\n")
        assert (await client.reply()).status == 200
        assert (await client.reply()).status == 400
        assert await client.reader.read() == b""
        client.close()


async def test_connection_close_is_kept() -> None:
    async with rig() as r:
        client = await Client.open(r.port)
        client.post(PATH, completion("p", stream=True), connection="close")
        reply = await client.reply()
        assert reply.headers["connection"] == "close"
        assert await client.reader.read() == b""
        client.close()


async def test_http_1_0_gets_no_chunks() -> None:
    async with rig() as r:
        client = await Client.open(r.port)
        body = json.dumps(completion("p", stream=True)).encode()
        client.writer.write(
            post(
                b"content-length: %d" % len(body), body=body, first=b"POST /v1/completions HTTP/1.0"
            )
        )
        reply = await client.reply()
        assert "transfer-encoding" not in reply.headers
        assert reply.body.endswith(b"data: [DONE]\n\n")
        client.close()


async def test_bytes_may_come_one_by_one() -> None:
    async with rig() as r:
        client = await Client.open(r.port)
        for byte in post(b"host: x", LENGTH):
            client.writer.write(bytes((byte,)))
            await client.writer.drain()
            await asyncio.sleep(0)
        assert (await client.reply()).status == 200
        client.close()


async def test_too_many_connections_are_refused() -> None:
    async with rig(limits={"connections": 2}) as r:
        clients = [await Client.open(r.port) for _ in range(2)]
        await until(lambda: len(r.proxy._server.connections) == 2)
        reply = await get(r.port, "/v1/models")
        assert reply.status == 503
        assert reply.headers["retry-after"] == "1"
        for client in clients:
            client.close()


NOT_SERVED = """
/sleep /wake_up /is_sleeping /pause /resume /is_paused /collective_rpc /reset_prefix_cache
/reset_mm_cache /reset_encoder_cache /release_kv_cache_memory /metrics /server_info /load
/scale_elastic_ep /is_scaling_elastic_ep /fault_tolerance/apply /fault_tolerance/status /invocations
/init_weight_transfer_engine /shutdown_weight_transfer_engine /start_weight_update
/start_draft_weight_update /update_weights /finish_weight_update /update_weight_version
/weight_info /weight_checker /get_world_size /abort_requests /inference/v1/abort_requests
/inference/v1/generate /start_profile /stop_profile /kv_event_sources /tokenizer_info
/v1/load_lora_adapter /v1/unload_lora_adapter /v1/realtime /v1/responses/resp_1
/v1/responses/resp_1/cancel /v1/chat/completions/render /v1/chat/completions/derender
/v1/completions/render /v1/completions/derender /v1/messages/render /v1/responses/render
/cohere/v2/chat /cohere/v2/chat/render /v2/embed /docs /redoc /openapi.json /static/x / *
/v1/../pause /v1/models/../../pause //v1/models /v1/%6dodels /V1/models /v1/models/ http://x/pause
"""


@pytest.mark.parametrize("path", NOT_SERVED.split())
@pytest.mark.parametrize("method", ["GET", "POST"])
async def test_what_is_not_on_the_list_is_404(path: str, method: str) -> None:
    async with rig() as r:
        client = await Client.open(r.port)
        client.send("OPTIONS" if path == "*" else method, path)
        reply = await client.reply()
        client.close()
        assert reply.status == 404
        assert reply.error["type"] == "NotFoundError"
        assert r.decoders[0].seen == []


async def test_wrong_method_is_405() -> None:
    async with rig() as r:
        reply = await get(r.port, PATH)
        assert reply.status == 405
        assert reply.headers["allow"] == "OPTIONS, POST"
        client = await Client.open(r.port)
        client.send("HEAD", "/v1/models")
        assert (await client.head())[0] == 405
        client.send("GET", "/v1/models")
        assert (await client.reply()).status == 200
        client.close()


@pytest.mark.parametrize("path", ["/v1/models", "/health"])
async def test_other_paths_go_to_a_decoder(path: str) -> None:
    async with rig() as r:
        reply = await get(r.port, path)
        assert reply.status == 200
        assert reply.headers["x-pd-decoder"] == "decoder-0"
        assert await r.metric("pd_proxy_requests_offered_total") == 0


SERVED = """
/v1/chat/completions/batch /v1/responses /v1/messages /v1/messages/count_tokens /v1/embeddings
/v1/audio/transcriptions /v1/audio/translations /v1/score /score /v1/rerank /v2/rerank /rerank?x=1
/pooling /classify /generative_scoring /detokenize
"""


@pytest.mark.parametrize("path", SERVED.split())
async def test_other_bodies_are_passed_on_as_they_are(path: str) -> None:
    async with rig() as r:
        body = {"input": "héllo", "model": "tiny"}
        reply = await ask(r.port, path, body)
        assert reply.json() == {"path": path, "size": len(json.dumps(body).encode())}
        assert r.decoders[0].seen[0].body == body


@pytest.mark.parametrize("name", ["kv_transfer_params", "kv\\u005ftransfer_params"])
async def test_other_bodies_cannot_carry_kv_params(name: str) -> None:
    async with rig() as r:
        client = await Client.open(r.port)
        body = f'{{"input":"x","{name}":{{"do_remote_decode":true}}}}'.encode()
        client.send("POST", "/v1/responses", body, content_type="application/json")
        assert (await client.reply()).status == 200
        assert r.decoders[0].seen[0].body == {"input": "x"}
        client.send(
            "POST", "/v1/audio/transcriptions", b"kv_transfer_params", content_type="multipart/x"
        )
        assert (await client.reply()).status == 400
        client.close()


class _Collect:
    def __init__(self) -> None:
        self.requests: list[Request] = []
        self.reader = Reader(self.requests.append, 4096, 4096)

    def feed(self, data: bytes, cuts: list[int]) -> ProxyError | None:
        error = None
        last = 0
        for cut in [*sorted(c % (len(data) + 1) for c in cuts), len(data)]:
            error = self.reader.feed(data[last:cut])
            last = cut
        return error


_TOKEN = st.text("abcdefghijklmnopqrstuvwxyz-", min_size=1, max_size=12).filter(
    lambda n: (
        n not in ("host", "content-length", "transfer-encoding", "expect", "upgrade", "connection")
    )
)
_VALUE = st.text("abc XYZ09;,=/", max_size=20).map(str.strip)


@settings(deadline=None, max_examples=150, suppress_health_check=list(HealthCheck))
@given(
    headers=st.lists(st.tuples(_TOKEN, _VALUE), max_size=6),
    bodies=st.lists(st.binary(max_size=200), min_size=1, max_size=3),
    chunked=st.booleans(),
    cuts=st.lists(st.integers(0, 5000), max_size=12),
)
def test_requests_do_not_depend_on_how_their_bytes_arrive(
    headers: list[tuple[str, str]], bodies: list[bytes], chunked: bool, cuts: list[int]
) -> None:
    data = b""
    for body in bodies:
        lines = [b"POST /v1/x?q HTTP/1.1", b"Host: h"]
        lines += [f"{name}: {value}".encode() for name, value in headers]
        lines.append(CHUNKED if chunked else b"Content-Length: %d" % len(body))
        if chunked:
            body = (b"%x\r\n%b\r\n" % (len(body), body) if body else b"") + b"0\r\n\r\n"  # noqa: PLW2901
        data += b"\r\n".join(lines) + b"\r\n\r\n" + body
    collect = _Collect()
    assert collect.feed(data, cuts) is None
    assert [x.body for x in collect.requests] == bodies
    for request in collect.requests:
        assert request.path == b"/v1/x"
        found = [(n.decode(), v.decode().strip()) for n, v in request.headers[1:-1]]
        assert found == headers
    assert not collect.reader.in_message


@settings(deadline=None, max_examples=300, suppress_health_check=list(HealthCheck))
@given(data=st.binary(max_size=600), cuts=st.lists(st.integers(0, 600), max_size=5))
def test_no_bytes_crash_the_reader(data: bytes, cuts: list[int]) -> None:
    collect = _Collect()
    error = collect.feed(post(b"host: x", b"x: y", CHUNKED, body=b"") + data, cuts)
    assert error is None or error.status in (400, 405, 413, 431)


@settings(deadline=None, max_examples=200, suppress_health_check=list(HealthCheck))
@given(data=st.data())
def test_a_damaged_request_is_refused_or_read_in_full(data: st.DataObject) -> None:
    whole = bytearray(post(b"host: x", LENGTH))
    position = data.draw(st.integers(0, len(whole) - len(BODY) - 1))
    whole[position] = data.draw(st.integers(0, 255))
    collect = _Collect()
    error = collect.feed(bytes(whole), [])
    if error is None:
        assert len(collect.requests) <= 1 or collect.reader.in_message
