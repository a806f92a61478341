"""Keys, certificates and deadlines of the proxy change under load, and no request notices."""

import base64
import http.client
import os
import secrets
import ssl
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from pd_operator.build.proxy import CONFIG_HASH
from tests.e2e.client import completion, send
from tests.e2e.deploy import reached, tiny
from tests.kube import Kube, Manifest, until

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.engine,
    pytest.mark.skipif(
        os.environ.get("CLUSTER") not in (None, "", "local"),
        reason="a forwarded port ends with the pod that it leads to",
    ),
]

NAME = "guarded"
KEY = "sk-first"
RENEWAL_SECONDS = 180.0
"""The kubelet looks at mounted Secrets about once a minute."""


def ask(url: str, key: str | None) -> tuple[int, str]:
    body = completion(f"{secrets.token_hex(8)} behind a key", stream=True)
    reply = send(url, "/v1/completions", body, key=key)
    return reply.status, reply.error


@contextmanager
def load(url: str) -> Iterator[list[str]]:
    """Requests one after the other; what went wrong with them."""
    over = threading.Event()
    failures: list[str] = []

    def run() -> None:
        while not over.is_set():
            try:
                answer = ask(url, KEY)
            except OSError as error:
                failures.append(repr(error))
                continue
            if answer != (200, ""):
                failures.append(str(answer))

    threads = [threading.Thread(target=run, daemon=True) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        yield failures
    finally:
        over.set()
        for thread in threads:
            thread.join(60)


def secret(name: str, data: dict[str, bytes], kind: str = "Opaque") -> Manifest:
    encoded = {key: base64.b64encode(value).decode() for key, value in data.items()}
    return {
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "type": kind,
        "data": encoded,
    }  # fmt: skip


def config_hash(kube: Kube, namespace: str) -> str:
    template = kube.get("deployment", f"{NAME}-proxy", namespace)["spec"]["template"]
    return str(template["metadata"]["annotations"][CONFIG_HASH])


def change(kube: Kube, namespace: str, proxy: Manifest) -> None:
    """Change the proxy's section, and wait until all its pods are new ones."""
    before = config_hash(kube, namespace)
    kube.patch("pdd", NAME, namespace, {"spec": {"proxy": proxy}})
    until(lambda: config_hash(kube, namespace) != before, 60, "a new template of the proxy")
    kube.kubectl(
        "rollout", "status", f"deployment/{NAME}-proxy", "-n", namespace, "--timeout=240s",
        timeout=300,
    )  # fmt: skip

    def alone() -> bool:
        selector = f"pd-operator.io/deployment={NAME},pd-operator.io/component=proxy"
        return len(kube.list("pods", namespace, selector)) == 2

    until(alone, 180, "the former pods of the proxy to end")


@pytest.fixture
def guarded(kube: Kube, images: dict[str, str], operator: str, namespace: str) -> Iterator[str]:
    manifest = tiny(images, NAME, of="colocated-cpu")
    manifest["spec"]["proxy"] = {"replicas": 2}
    kube.apply(secret("clients", {"acme": KEY.encode()}), namespace)
    kube.apply(manifest, namespace)
    kube.wait_ready(NAME, namespace)
    with reached(kube, NAME, namespace) as url:
        yield url


def test_the_proxy_changes_under_load(kube: Kube, namespace: str, guarded: str) -> None:
    with load(guarded) as failures:
        change(kube, namespace, {"timeouts": {"firstToken": "90s", "drain": "45s"}})
        assert failures == []
        change(kube, namespace, {"apiKeys": {"secretName": "clients"}, "accessLog": True})
        assert failures == []
        assert ask(guarded, None)[0] == 401
        assert ask(guarded, "sk-wrong")[0] == 401
        # A second key is there before the first one goes, and no pod is restarted for it.
        before = config_hash(kube, namespace)
        kube.apply(secret("clients", {"acme": f"{KEY}\nsk-second".encode()}), namespace)
        until(lambda: ask(guarded, "sk-second")[0] == 200, RENEWAL_SECONDS, "the second key")
        assert failures == []
        assert config_hash(kube, namespace) == before
    log = kube.kubectl("logs", f"deployment/{NAME}-proxy", "-n", namespace, "--tail=-1")
    assert '"event":"request"' in log
    assert '"tenant":"acme"' in log
    assert "sk-" not in log
    assert "behind a key" not in log


def test_tls(kube: Kube, namespace: str, guarded: str, tmp_path: Path) -> None:
    host = guarded.removeprefix("http://").rpartition(":")[0]

    def issue(name: str) -> bytes:
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt",
             "ec_paramgen_curve:prime256v1", "-nodes", "-days", "2", "-subj", f"/CN={name}",
             "-addext", f"subjectAltName=IP:{host}", "-keyout", str(tmp_path / "tls.key"),
             "-out", str(tmp_path / "tls.crt")],
            check=True, capture_output=True,
        )  # fmt: skip
        files = {name: (tmp_path / name).read_bytes() for name in ("tls.crt", "tls.key")}
        kube.apply(secret("web", files, "kubernetes.io/tls"), namespace)
        return ssl.PEM_cert_to_DER_cert(files["tls.crt"].decode())

    def shown() -> bytes:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        connection = http.client.HTTPSConnection(host, 8000, timeout=10, context=context)
        try:
            connection.request("GET", "/v1/models")
            assert connection.getresponse().status == 200
            assert isinstance(connection.sock, ssl.SSLSocket)
            return connection.sock.getpeercert(binary_form=True) or b""
        finally:
            connection.close()

    first = issue("first")
    change(kube, namespace, {"tls": {"secretName": "web"}})
    assert shown() == first

    def told() -> bool:
        status = kube.get("pdd", NAME, namespace)["status"]
        return str(status["url"]).startswith("https://")

    until(told, 60, "https in status.url")
    kube.wait_ready(NAME, namespace)
    second = issue("second")
    until(lambda: shown() == second, RENEWAL_SECONDS, "the renewed certificate")
