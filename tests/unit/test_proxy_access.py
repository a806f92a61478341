"""API keys, TLS, and the cache salt that keeps tenants apart."""

import asyncio
import json
import ssl
import subprocess
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pd_proxy import folder, keys
from pd_proxy.body import completion as read_completion
from pd_proxy.body import harmless
from pd_proxy.errors import ProxyError
from pd_proxy.tls import Tls
from pd_proxy.values import ConfigError
from tests.engine_sim import answers
from tests.engine_sim.client import Client, Reply, ask
from tests.engine_sim.rig import Rig, completion, rig, until

PATH = "/v1/completions"


def files(path: Path, **contents: str) -> Path:
    path.mkdir(exist_ok=True)
    for name, text in contents.items():
        (path / name).write_text(text)
    return path


def section(path: Path, *, isolate: bool = True) -> dict[str, Any]:
    return {"apiKeys": {"folder": str(path), "isolateCache": isolate}}


async def as_(r: Rig, key: str, prompt: str = "p", **more: Any) -> Reply:
    return await ask(r.port, PATH, completion(prompt, **more), authorization=f"Bearer {key}")


async def served(r: Rig, key: str) -> bool:
    return (await as_(r, key)).status == 200


async def eventually(check: Callable[[], Awaitable[bool]]) -> None:
    while True:
        if await check():
            return
        await asyncio.sleep(0.01)


async def test_a_key_is_asked_for(tmp_path: Path) -> None:
    keys_folder = files(tmp_path / "keys", acme="sk-acme-1\n\nsk-acme-2\n", bolt="sk-bolt")
    async with rig(sections=section(keys_folder)) as r:
        for headers in (
            {},
            {"authorization": "Bearer sk-wrong"},
            {"authorization": "Bearer "},
            {"authorization": "sk-bolt"},
            {"authorization": "Basic sk-bolt"},
            {"authorization": "Bearer sk-bolt-and-more"},
            {"authorization": "Bearer sk-bol"},
            {"x_api_key": "sk-wrong"},
        ):
            reply = await ask(r.port, PATH, completion("p"), **headers)
            assert reply.status == 401, headers
            assert reply.error["type"] == "AuthenticationError"
            assert reply.headers["www-authenticate"] == "Bearer"
            assert reply.headers["connection"] == "close"
        assert r.prefillers[0].seen == r.decoders[0].seen == []
        assert await r.metric("pd_proxy_requests_offered_total") == 0
        assert await r.metric("pd_proxy_requests_total", outcome="client_error") == 8
        for key in ("sk-acme-1", "sk-acme-2", "sk-bolt"):
            assert (await as_(r, key)).text() == "".join(answers.tokens("p", 4))
        assert (await ask(r.port, PATH, completion("p"), x_api_key="sk-bolt")).status == 200
        for engine in (r.prefillers[0], r.decoders[0]):
            assert len(engine.seen) == 4
            for seen in engine.seen:
                assert not {"authorization", "x-api-key"} & set(seen.headers)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/v1/models", 401),
        ("GET", "/version", 401),
        ("GET", "/metrics", 401),
        ("POST", "/tokenize", 401),
        ("GET", "/health", 200),
        ("GET", "/health?x=1", 200),
        ("GET", "/ping", 200),
        ("GET", "/health/../v1/models", 401),
        ("GET", "//health", 401),
    ],
)
async def test_what_is_open_without_a_key(
    tmp_path: Path, method: str, path: str, status: int
) -> None:
    async with rig(sections=section(files(tmp_path / "keys", a="sk-a"))) as r:
        client = await Client.open(r.port)
        client.send(method, path)
        assert (await client.reply()).status == status
        client.close()


async def test_who_has_no_key_is_refused_before_the_body(tmp_path: Path) -> None:
    async with rig(sections=section(files(tmp_path / "keys", a="sk-a"))) as r:
        client = await Client.open(r.port)
        client.writer.write(
            b"POST /v1/completions HTTP/1.1\r\nhost: x\r\ncontent-length: 1000000\r\n"
            b"expect: 100-continue\r\n\r\n"
        )
        assert (await client.reply()).status == 401
        assert await client.reader.read() == b""
        client.close()


async def test_keys_change_without_a_restart(tmp_path: Path) -> None:
    keys_folder = files(tmp_path / "keys", a="sk-old")
    async with rig(sections=section(keys_folder), secret_seconds=0.01) as r:
        assert (await as_(r, "sk-old")).status == 200
        (keys_folder / "a").write_text("sk-new")
        await eventually(lambda: served(r, "sk-new"))
        assert (await as_(r, "sk-old")).status == 401
        # What cannot be read is no reason to let everybody in, or nobody.
        (keys_folder / "a").unlink()
        keys_folder.rmdir()
        await asyncio.sleep(0.05)
        assert (await as_(r, "sk-new")).status == 200
        assert (await as_(r, "sk-old")).status == 401


async def test_a_secret_without_keys_lets_nobody_in(tmp_path: Path) -> None:
    async with rig(sections=section(files(tmp_path / "keys", a="\n"))) as r:
        assert (await as_(r, "")).status == 401
        assert (await ask(r.port, PATH, completion("p"))).status == 401


async def test_each_tenant_has_a_cache_of_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    keys_folder = files(tmp_path / "keys", acme="sk-acme\nsk-acme-next", bolt="sk-bolt")
    async with rig(sections=section(keys_folder)) as r:
        for key in ("sk-acme", "sk-acme-next", "sk-bolt"):
            assert (await as_(r, key)).status == 200
        assert (await as_(r, "sk-acme", cache_salt="mine")).status == 200
        assert (await as_(r, "sk-bolt", cache_salt="mine")).status == 200
        prefills = [s.body["cache_salt"] for s in r.prefillers[0].seen]
        decodes = [s.body["cache_salt"] for s in r.decoders[0].seen]
        assert prefills == decodes
        assert prefills[0] == prefills[1]
        assert len(set(prefills)) == 4
        for salt in prefills:  # as vLLM wants it
            assert 32 <= len(salt) <= 128
            assert salt.isalnum()
            assert "sk-" not in salt
        out = capsys.readouterr().out
        assert "sk-" not in out
        assert prefills[0] not in out


async def test_tenants_can_share_their_cache(tmp_path: Path) -> None:
    keys_folder = files(tmp_path / "keys", a="sk-a")
    async with rig(sections=section(keys_folder, isolate=False)) as r:
        assert (await as_(r, "sk-a")).status == 200
        assert (await as_(r, "sk-a", cache_salt="mine")).status == 200
        assert [s.body.get("cache_salt") for s in r.decoders[0].seen] == [None, "mine"]


@pytest.mark.parametrize("path", ["/v1/embeddings", "/v1/responses", "/v1/messages"])
async def test_other_bodies_are_salted_too(tmp_path: Path, path: str) -> None:
    async with rig(sections=section(files(tmp_path / "keys", a="sk-a"))) as r:
        assert (await ask(r.port, path, {"input": "x"}, x_api_key="sk-a")).status == 200
        assert len(r.decoders[0].seen[0].body["cache_salt"]) == 64


def salt(own: str | None) -> str:
    return f"salted-{own}"


@given(st.dictionaries(st.text(max_size=5), st.integers() | st.text(max_size=5), max_size=4))
def test_salting_changes_nothing_else(fields: dict[str, Any]) -> None:
    raw = json.dumps(fields, indent=1).encode()
    fields.pop("cache_salt", None)
    raw = json.dumps(fields).encode()
    for salted in (read_completion(raw, False, salt).raw, harmless(raw, salt)):
        assert json.loads(salted) == {**fields, "cache_salt": "salted-None"}
        assert salted.startswith(raw[:-1])


def test_a_clients_own_salt_is_replaced() -> None:
    for raw, made in (
        (b'{"cache_salt":"x","a":1}', "salted-x"),
        (b'{"cache_salt":null}', "salted-None"),
        (b'{"cache_salt":"y","cache\\u005fsalt":"x"}', "salted-x"),
    ):
        body = read_completion(raw, False, salt)
        assert json.loads(body.raw)["cache_salt"] == body.fields["cache_salt"] == made
        assert body.raw.count(b'salt"') == 1
    assert json.loads(read_completion(b'{"cache_salt":7}', False, salt).raw) == {"cache_salt": 7}


@pytest.mark.parametrize("name", ["kv_transfer_params", "ec_transfer_params"])
@pytest.mark.parametrize("place", [None, "vllm_xargs", "extra_args"])
def test_nothing_steers_a_transfer(name: str, place: str | None) -> None:
    inner = {name: {"do_remote_decode": True}, "b": 1}
    body = {"a": 1, **(inner if place is None else {place: inner})}
    for text in (json.dumps(body), json.dumps(body).replace("_transfer", "\\u005ftransfer")):
        for raw in (read_completion(text.encode(), True).raw, harmless(text.encode())):
            assert b"transfer_params" not in raw
            assert json.loads(raw)["a"] == 1


@given(st.dictionaries(st.text("abc", min_size=1), st.binary(max_size=40), max_size=4))
def test_only_what_is_in_the_files_is_a_key(contents: dict[str, bytes]) -> None:
    ring = keys.keyring(contents, b"secret")
    known = {line.strip() for text in contents.values() for line in text.splitlines()} - {b""}
    for key in (*known, b"other", b"x"):
        found = keys.check(ring, b"/v1/models", [(b"x-api-key", key)])
        assert isinstance(found, str) is (key in known)
    assert isinstance(keys.check(ring, b"/v1/models", [(b"x-api-key", b"")]), ProxyError)
    # Nothing that is kept tells a key, and nothing that is printed tells what is kept.
    kept = [*ring.tenants, *ring.salts.values()]
    assert not any(key in value for key in known if len(key) > 3 for value in kept)
    assert repr(ring) == "Keyring()"


def test_what_cannot_be_read_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nowhere cannot be read"):
        folder.read(tmp_path / "nowhere")
    files(tmp_path / "keys", a="k")
    (tmp_path / "keys" / "..data").mkdir()
    assert folder.read(tmp_path / "keys") == {"a": b"k"}
    (tmp_path / "keys" / "b").write_bytes(b"x" * (1024 * 1024))
    with pytest.raises(ConfigError, match="more than"):
        folder.read(tmp_path / "keys")


# TLS.


def certificate(path: Path, name: str) -> bytes:
    """A self-signed certificate with its key, as cert-manager would mount it; its DER."""
    path.mkdir(exist_ok=True)
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1",
         "-nodes", "-days", "2", "-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1",
         "-keyout", str(path / "tls.key"), "-out", str(path / "tls.crt")],
        check=True, capture_output=True,
    )  # fmt: skip
    return ssl.PEM_cert_to_DER_cert((path / "tls.crt").read_text())


async def secure(r: Rig, path: Path) -> Client:
    context = ssl.create_default_context(cafile=str(path / "tls.crt"))
    context.set_alpn_protocols(["h2", "http/1.1"])
    return Client(*await asyncio.open_connection("127.0.0.1", r.port, ssl=context))


def shown(client: Client) -> bytes:
    found = client.writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    assert isinstance(found, bytes)
    return found


async def test_tls(tmp_path: Path) -> None:
    made = certificate(tmp_path / "tls", "one")
    async with rig(sections={"tls": {"folder": str(tmp_path / "tls")}}) as r:
        client = await secure(r, tmp_path / "tls")
        assert shown(client) == made
        assert client.writer.get_extra_info("ssl_object").selected_alpn_protocol() == "http/1.1"
        client.post(PATH, completion("p", stream=True))
        assert (await client.reply()).text() == "".join(answers.tokens("p", 4))
        client.close()
        # Plain HTTP is not served there; the admin port stays as it was.
        plain = await Client.open(r.port)
        plain.post(PATH, completion("p"))
        with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
            await plain.reply()
        plain.close()
        assert await r.metric("pd_proxy_requests_offered_total") == 1


async def test_a_renewed_certificate_counts_without_a_restart(tmp_path: Path) -> None:
    path = tmp_path / "tls"
    old = certificate(path, "old")
    sections = {"tls": {"folder": str(path)}}
    async with rig(sections=sections, secret_seconds=0.01, per_token=0.01) as r:
        running = await secure(r, path)
        running.post(PATH, completion("p", stream=True, max_tokens=30))
        await running.head()
        # Half of a renewal, as when two files are written one after the other: all stays.
        certificate(tmp_path / "new", "new")
        (path / "tls.key").write_bytes((tmp_path / "new" / "tls.key").read_bytes())
        await asyncio.sleep(0.05)
        client = await secure(r, path)
        assert shown(client) == old
        client.close()
        (path / "tls.crt").write_bytes((tmp_path / "new" / "tls.crt").read_bytes())
        new = ssl.PEM_cert_to_DER_cert((path / "tls.crt").read_text())

        async def renewed() -> bool:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE
            other = Client(*await asyncio.open_connection("127.0.0.1", r.port, ssl=context))
            other.close()
            return shown(other) == new

        await eventually(renewed)
        body = b""
        while data := await running.chunk():
            body += data
        assert body.endswith(b"data: [DONE]\n\n")
        running.close()


def test_a_certificate_that_does_not_fit_is_told_at_the_start(tmp_path: Path) -> None:
    certificate(tmp_path / "tls", "one")
    (tmp_path / "tls" / "tls.key").write_text("nonsense")
    with pytest.raises(ConfigError, match=r"no usable tls\.crt and tls\.key"):
        Tls(tmp_path / "tls")
    (tmp_path / "tls" / "tls.crt").unlink()
    with pytest.raises(ConfigError, match=r"no usable tls\.crt and tls\.key"):
        Tls(tmp_path / "tls")


async def test_large_answers_and_slow_clients_over_tls(tmp_path: Path) -> None:
    certificate(tmp_path / "tls", "one")
    async with rig(sections={"tls": {"folder": str(tmp_path / "tls")}}) as r:
        client = await secure(r, tmp_path / "tls")
        client.post(PATH, completion("p", stream=True, max_tokens=12000))
        await until(lambda: r.decoders[0].running == 1)
        reply = await client.reply()
        assert reply.body.count(b"\n\n") == 12001
        client.send("POST", PATH, b"x" * (2 << 20))
        assert (await client.reply()).status == 413
        client.close()
