"""kopf wakes the queue and writes nothing: run against an API server in memory, over HTTP."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

import kopf
import pytest

from pd_operator import handlers, kinds
from pd_operator.queue import Key
from pd_shared import labels
from tests.faults.http import HttpServer
from tests.faults.server import Manifest, Server

PLURALS = {kind.plural for kind in (*kinds.CHILDREN, kinds.POD, kinds.PD_DEPLOYMENT)}


class Keys:
    """Collects what would go on the queue."""

    def __init__(self) -> None:
        self.added: list[tuple[Key, float]] = []
        self.beats = 0
        self._changed = asyncio.Condition()

    def add(self, key: Key, delay: float) -> None:
        self.added.append((key, delay))
        self._wake = asyncio.create_task(self._notify())

    def beat(self) -> None:
        self.beats += 1

    async def _notify(self) -> None:
        async with self._changed:
            self._changed.notify_all()

    async def until(self, what: Callable[[], bool]) -> None:
        async with self._changed:
            await self._changed.wait_for(what)

    def count(self, name: str) -> int:
        return sum(key[1] == name for key, _ in self.added)


def cr(name: str, generation: int = 1, uid: str = "u") -> Manifest:
    return {
        "apiVersion": kinds.PD_DEPLOYMENT.api_version,
        "kind": kinds.PD_DEPLOYMENT.name,
        "metadata": {"name": name, "namespace": "ns", "uid": uid, "generation": generation},
        "spec": {"x": generation},
    }


def config_map(name: str, **own: str) -> Manifest:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "ns", "labels": own},
    }


@contextlib.asynccontextmanager
async def watching(http: HttpServer, keys: Keys, namespace: str = "") -> AsyncIterator[list[str]]:
    """kopf with the operator's handlers; yields the names of what its cleanup ran."""
    cleaned: list[str] = []
    stop = asyncio.Event()

    async def cleanup() -> None:
        cleaned.append("cleanup")
        stop.set()

    async with http.serve() as url:
        wake = handlers.Wake(keys.add, keys.beat)
        login = kopf.ConnectionInfo(server=url, token="t")
        task = asyncio.create_task(
            kopf.operator(
                registry=handlers.register(wake, lambda: login, cleanup),
                settings=handlers.settings(),
                standalone=True,
                clusterwide=not namespace,
                namespaces=[namespace] if namespace else [],
                stop_flag=stop,
            )
        )
        try:
            await http.watched(PLURALS)
            yield cleaned
        finally:
            stop.set()
            await task


@pytest.fixture
def http() -> HttpServer:
    return HttpServer(Server())


@pytest.fixture
async def keys() -> Keys:
    return Keys()


async def test_events_become_keys_and_nothing_is_written(http: HttpServer, keys: Keys) -> None:
    http.server.put(cr("before"))
    async with watching(http, keys) as cleaned:
        await keys.until(lambda: keys.count("before") > 0)
        made = http.server.put(cr("after"))
        await keys.until(lambda: keys.count("after") > 0)
        # A write of the status is no reason to look again.
        http.server.put({**made, "status": {"url": "u"}})
        http.server.put({**cr("after"), "spec": {"x": 2}})
        await keys.until(lambda: keys.count("after") > 1)
        http.server.put(config_map("child", **{labels.DEPLOYMENT: "owner"}))
        http.server.put(config_map("stranger", app="x"))
        await keys.until(lambda: keys.count("owner") > 0)
        http.server.remove(("ConfigMap", "ns", "child"))
        await keys.until(lambda: keys.count("owner") > 1)
        http.server.remove(("PDDeployment", "ns", "after"))
        await keys.until(lambda: keys.count("after") > 2)
    assert {key for key, _ in keys.added} == {("ns", "before"), ("ns", "after"), ("ns", "owner")}
    assert (keys.count("before"), keys.count("after")) == (1, 3)
    assert keys.beats >= len(keys.added)
    assert http.writes() == []
    assert cleaned == ["cleanup"]


async def test_children_are_selected_by_the_server(http: HttpServer, keys: Keys) -> None:
    async with watching(http, keys):
        pass
    for kind in (*kinds.CHILDREN, kinds.POD):
        path = f"{kind.root}/{kind.plural}"
        queries = [query for _, requested, query in http.requests if requested == path]
        assert queries, path
        assert all(query["labelSelector"] == labels.DEPLOYMENT for query in queries), path


async def test_namespaces_and_crds_are_never_read(http: HttpServer, keys: Keys) -> None:
    async with watching(http, keys):
        pass
    asked = {path for _, path, _ in http.requests}
    assert not [path for path in asked if "namespaces" in path or "customresource" in path]


async def test_one_namespace_is_watched_where_one_is_set(http: HttpServer, keys: Keys) -> None:
    async with watching(http, keys, "ns"):
        http.server.put(cr("inside"))
        outside = cr("outside")
        outside["metadata"]["namespace"] = "other"
        await keys.until(lambda: keys.count("inside") > 0)
    listed = {path for _, path, query in http.requests if "watch" in query}
    assert listed
    assert all("/namespaces/ns/" in path for path in listed)


def woken(*events: tuple[str | None, Manifest]) -> list[Key]:
    added: list[Key] = []
    wake = handlers.Wake(lambda key, _: added.append(key), lambda: None)
    for event, manifest in events:
        wake.deployment(event, manifest["metadata"])
    return added


@pytest.mark.parametrize("event", [None, "ADDED", "MODIFIED"])
def test_the_same_generation_wakes_once(event: str | None) -> None:
    assert len(woken((event, cr("a")), ("MODIFIED", cr("a")), (None, cr("a")))) == 1


def test_what_is_new_wakes() -> None:
    assert len(woken((None, cr("a")), ("MODIFIED", cr("a", generation=2)))) == 2
    assert len(woken((None, cr("a")), ("MODIFIED", cr("a", uid="anew")))) == 2
    assert len(woken((None, cr("a")), ("DELETED", cr("a")), ("ADDED", cr("a")))) == 3


def test_a_child_without_the_label_wakes_nobody() -> None:
    added: list[Key] = []
    beats: list[int] = []
    wake = handlers.Wake(lambda key, _: added.append(key), lambda: beats.append(1))
    wake.child({"namespace": "ns", "name": "x"})
    wake.child({"namespace": "ns", "name": "x", "labels": {}})
    assert added == []
    assert len(beats) == 2
