"""The tests' own way to ask the API server: what it finds, repeats and tells."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests import kube_api
from tests.kube import CommandError, Kube

PODS = {
    "resource": "pods",
    "singularResource": "pod",
    "shortNames": ["po"],
    "responseKind": {"kind": "Pod"},
    "scope": "Namespaced",
}
NODES = {"resource": "nodes", "responseKind": {"kind": "Node"}, "scope": "Cluster"}


def group(name: str, version: str, *resources: dict[str, Any]) -> dict[str, Any]:
    metadata = {"name": name} if name else {}
    return {"metadata": metadata, "versions": [{"version": version, "resources": resources}]}


DISCOVERY = {
    "/api": {"items": [group("", "v1", PODS, NODES)]},
    "/apis": {"items": [group("metrics.example", "v1beta1", PODS), group("apps", "v1")]},
}


@contextmanager
def served(*answers: tuple[int, Any] | None) -> Iterator[tuple[kube_api.Api, list[str]]]:
    """A server that gives these answers, one each; None closes the connection without one."""
    asked: list[str] = []
    left = list(answers)

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            asked.append(self.path)
            answer = (200, DISCOVERY[self.path]) if self.path in DISCOVERY else left.pop(0)
            if answer is None:
                self.close_connection = True
                return
            body = json.dumps(answer[1]).encode()
            self.send_response(answer[0])
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    api = kube_api.Api(f"http://127.0.0.1:{server.server_port}", None, pause=0)
    try:
        yield api, asked
    finally:
        api.close()
        server.shutdown()
        server.server_close()


def test_a_kind_has_all_its_names_and_the_first_group_wins() -> None:
    with served() as (api, _):
        assert api.resource("po") == api.resource("Pod") == api.resource("pods")
        assert api.resource("pods").path("n", "x") == "/api/v1/namespaces/n/pods/x"
        assert api.resource("pods").path("n", selector="a=b") == (
            "/api/v1/namespaces/n/pods?labelSelector=a%3Db"
        )
        assert api.resource("nodes").path("n", "x") == "/api/v1/nodes/x"
        with pytest.raises(KeyError):
            api.resource("unheard")


def test_a_closed_connection_is_opened_anew() -> None:
    with served((200, 1), None, (200, 2)) as (api, asked):
        assert [api.ask("GET", "/x").text, api.ask("GET", "/x").text] == ["1", "2"]
        assert len(asked) == 3


def test_it_is_patient_where_the_server_asks_for_it() -> None:
    with served((429, {}), (429, {}), (200, 7)) as (api, _):
        assert api.ask("GET", "/x") == kube_api.Answer(200, "7")


@pytest.fixture
def kube() -> Kube:
    return Kube(kubeconfig=Path("unused"))


def use(monkeypatch: pytest.MonkeyPatch, api: kube_api.Api) -> None:
    monkeypatch.setattr(kube_api, "connect", lambda _: api)


def test_objects_of_a_list_say_what_they_are(monkeypatch: pytest.MonkeyPatch, kube: Kube) -> None:
    with served((200, {"items": [{"metadata": {"name": "a"}}]})) as (api, _):
        use(monkeypatch, api)
        (found,) = kube.list("pods", "n")
        assert found == {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}}


def test_what_is_not_there_is_none_and_a_refusal_is_told(
    monkeypatch: pytest.MonkeyPatch, kube: Kube
) -> None:
    missing = {"reason": "NotFound", "message": 'pods "x" not found'}
    denied = {"reason": "Forbidden", "message": "no"}
    with served((404, missing), (404, missing), (403, denied)) as (api, _):
        use(monkeypatch, api)
        assert kube.find("pod", "x", "n") is None
        with pytest.raises(CommandError, match="NotFound"):
            kube.get("pod", "x", "n")
        with pytest.raises(CommandError, match=r"\(Forbidden\): no"):
            kube.find("pod", "x", "n")


def test_other_credentials_are_left_to_kubectl(tmp_path: Path) -> None:
    config = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": {"server": "https://127.0.0.1:1"}}],
        "users": [{"name": "u", "user": {"exec": {"command": "login"}}}],
    }
    path = tmp_path / "config"
    path.write_text(yaml.safe_dump(config))
    assert kube_api.connect(path) is None
