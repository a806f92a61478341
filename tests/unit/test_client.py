"""The client over real HTTP, against an API server in memory."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web
from kubernetes.aio import client as generated

from pd_operator import client as module
from pd_operator import kinds
from pd_operator.client import KubernetesApi, configuration
from pd_operator.errors import ApiError
from tests.faults.http import HttpServer
from tests.faults.server import Manifest, Server


@pytest.fixture
def http() -> HttpServer:
    return HttpServer(Server())


@pytest.fixture
async def api(http: HttpServer) -> AsyncIterator[KubernetesApi]:
    async with http.serve() as url:
        made = KubernetesApi(generated.Configuration(host=url, api_key={"BearerToken": "bearer t"}))
        yield made
        await made.close()


def config_map(name: str, **labels: str) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "ns", "labels": labels},
        "data": {"a": "1"},
    }


async def test_apply_creates_and_changes(api: KubernetesApi, http: HttpServer) -> None:
    created = await api.apply(config_map("a"))
    assert created["metadata"]["uid"]
    changed = await api.apply({**config_map("a"), "data": {"b": "2"}})
    assert changed["data"] == {"b": "2"}
    assert http.writes() == [("PATCH", "/api/v1/namespaces/ns/configmaps/a")] * 2
    assert set(http.tokens) == {"bearer t"}


async def test_get(api: KubernetesApi) -> None:
    await api.apply(config_map("a"))
    found = await api.get(kinds.CONFIG_MAP, "ns", "a")
    assert found is not None
    assert found["data"] == {"a": "1"}
    assert await api.get(kinds.CONFIG_MAP, "ns", "b") is None


async def test_a_list_is_read_in_chunks_and_says_what_its_items_are(
    api: KubernetesApi, http: HttpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_CHUNK", 2)
    for name in "abcde":
        await api.apply(config_map(name, own="yes"))
    await api.apply(config_map("z", own="no"))
    http.requests.clear()
    found = await api.list(kinds.CONFIG_MAP, "ns", "own=yes", "metadata.name!=q")
    assert [m["metadata"]["name"] for m in found] == list("abcde")
    assert {(m["apiVersion"], m["kind"]) for m in found} == {("v1", "ConfigMap")}
    queries = [query for _, _, query in http.requests]
    assert [query.get("continue") for query in queries] == [None, "2", "4"]
    assert all(
        (q["limit"], q["labelSelector"], q["fieldSelector"]) == ("2", "own=yes", "metadata.name!=q")
        for q in queries
    )


async def test_a_list_over_all_namespaces(api: KubernetesApi, http: HttpServer) -> None:
    await api.list(kinds.STATEFUL_SET, "")
    assert http.requests[-1][1] == "/apis/apps/v1/statefulsets"


async def test_a_list_that_expires_is_read_whole(
    api: KubernetesApi, http: HttpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_CHUNK", 1)
    await api.apply(config_map("a"))
    await api.apply(config_map("b"))
    path = "/api/v1/namespaces/ns/configmaps"
    expired = web.json_response({"reason": "Expired", "message": "too old"}, status=410)
    first = web.json_response({"items": [], "metadata": {"continue": "token"}})
    http.fail["GET", path] = [first, expired]
    assert len(await api.list(kinds.CONFIG_MAP, "ns")) == 2
    assert "limit" not in http.requests[-1][2]


async def test_apply_status_touches_the_status_alone(api: KubernetesApi, http: HttpServer) -> None:
    created = http.server.put(
        {
            "apiVersion": kinds.PD_DEPLOYMENT.api_version,
            "kind": kinds.PD_DEPLOYMENT.name,
            "metadata": {"name": "a", "namespace": "ns"},
            "spec": {"x": 1},
        }
    )
    written = await api.apply_status({**created, "status": {"url": "u"}})
    assert (written["status"], written["spec"]) == ({"url": "u"}, {"x": 1})
    assert http.writes()[-1][1].endswith("/namespaces/ns/pddeployments/a/status")


async def test_create_and_replace_refuse_what_is_not_as_expected(api: KubernetesApi) -> None:
    created = await api.create(config_map("a"))
    with pytest.raises(ApiError, match="AlreadyExists"):
        await api.create(config_map("a"))
    replaced = await api.replace({**created, "data": {"b": "2"}})
    assert replaced["data"] == {"b": "2"}
    with pytest.raises(ApiError) as raised:
        await api.replace(created)
    assert (raised.value.status, raised.value.reason) == (409, "Conflict")


async def test_delete_is_of_one_incarnation_at_one_version(api: KubernetesApi) -> None:
    created = await api.apply(config_map("a"))
    uid, version = created["metadata"]["uid"], created["metadata"]["resourceVersion"]
    for wrong in (("other", version), (uid, "0")):
        with pytest.raises(ApiError, match="Conflict"):
            await api.delete(kinds.CONFIG_MAP, "ns", "a", *wrong)
    await api.delete(kinds.CONFIG_MAP, "ns", "a", uid, version)
    assert await api.get(kinds.CONFIG_MAP, "ns", "a") is None
    await api.delete(kinds.CONFIG_MAP, "ns", "a", uid, version)  # gone is gone


async def test_an_error_is_told_in_the_servers_words(api: KubernetesApi, http: HttpServer) -> None:
    path = "/api/v1/namespaces/ns/configmaps/a"
    body = {"reason": "TooManyRequests", "message": "slow down"}
    http.fail["PATCH", path] = [
        web.json_response(body, status=429, headers={"Retry-After": "7"}),
        web.Response(status=502, text="<html>bad gateway</html>"),
        web.json_response(["odd"], status=500),
    ]
    with pytest.raises(ApiError) as raised:
        await api.apply(config_map("a"))
    error = raised.value
    assert (error.status, error.message, error.retry_after) == (429, "slow down", 7.0)
    with pytest.raises(ApiError, match="bad gateway"):
        await api.apply(config_map("a"))
    with pytest.raises(ApiError, match="odd"):
        await api.apply(config_map("a"))


async def test_a_server_that_cannot_be_reached_is_an_error_of_its_own() -> None:
    api = KubernetesApi(generated.Configuration(host="http://127.0.0.1:1"))
    with pytest.raises(ApiError, match="did not answer") as raised:
        await api.get(kinds.CONFIG_MAP, "ns", "a")
    assert raised.value.status == 0
    await api.close()


async def test_requests_have_time_limits(api: KubernetesApi) -> None:
    assert (api._timeout.connect, api._timeout.total) == (5.0, 30.0)


async def test_no_cluster_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    from kubernetes.aio.config import kube_config

    monkeypatch.setattr(kube_config, "KUBE_CONFIG_DEFAULT_LOCATION", str(tmp_path / "absent"))
    with pytest.raises(ApiError, match="no access to a cluster"):
        await configuration()
