"""The table of backends as the API server tells it."""

import asyncio
import copy
from collections.abc import AsyncIterator
from typing import Any

import pytest

from pd_proxy.backends import DRAINING, READY, UNREADY, Backend, Backends
from pd_proxy.discovery.pods import read_pod
from pd_proxy.discovery.watch import ExpiredError, Follower, UnreachableError
from pd_proxy.protocols import protocols
from pd_shared import labels
from tests.engine_sim.rig import settings, until

CONFIG = settings()


def pod(
    name: str = "tiny-decoder-1234abcd-0", tier: str = "decoder", **status: Any
) -> dict[str, Any]:
    return {
        "metadata": {
            "name": name,
            "uid": f"uid-{name}",
            "resourceVersion": "7",
            "labels": {
                labels.DEPLOYMENT: "tiny", labels.COMPONENT: tier, labels.PAIRING: "aaaabbbb",
            },
            "annotations": {labels.DEPLOYMENT_UID: "uid"},
            "ownerReferences": [
                {"apiVersion": "apps/v1", "kind": "StatefulSet", "controller": True,
                 "name": name.rpartition("-")[0], "uid": "s"}
            ],
        },
        "status": {
            "phase": "Running",
            "podIP": "10.0.0.9",
            "conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [
                {"name": "engine", "restartCount": 0, "containerID": "c://1",
                 "state": {"running": {}}}
            ],
            **status,
        },
    }  # fmt: skip


def changed(path: str, value: Any) -> dict[str, Any]:
    made = copy.deepcopy(pod())
    inner: Any = made
    *keys, last = path.split("|")
    for key in keys:
        inner = inner[int(key) if key.isdigit() else key]
    inner[last] = value
    return made


def test_a_ready_pod() -> None:
    found = read_pod(pod(), CONFIG)
    assert found is not None
    assert (found.tier, found.pairing, found.host, found.state) == (
        "decoder", "aaaabbbb", "10.0.0.9", READY,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (f"metadata|labels|{labels.DEPLOYMENT}", "other"),
        (f"metadata|labels|{labels.COMPONENT}", "proxy"),
        (f"metadata|annotations|{labels.DEPLOYMENT_UID}", "a namesake's"),
        ("metadata|annotations", None),
        ("metadata|ownerReferences", None),
        ("metadata|ownerReferences|0|kind", "ReplicaSet"),
        ("metadata|ownerReferences|0|name", "evil"),
        ("metadata|ownerReferences|0|name", "tiny-prefiller-1234abcd"),
        ("metadata|ownerReferences|0|controller", False),
        ("metadata|ownerReferences|0|apiVersion", "evil.io/v1"),
        ("status|podIP", None),
        ("status|phase", "Failed"),
        ("status|phase", "Succeeded"),
    ],
)
def test_pods_that_do_not_count(path: str, value: Any) -> None:
    assert read_pod(changed(path, value), CONFIG) is None


@pytest.mark.parametrize(
    ("path", "value", "state"),
    [
        ("metadata|deletionTimestamp", "2026-01-01T00:00:00Z", DRAINING),
        (f"metadata|annotations|{labels.DRAINING}", "true", DRAINING),
        (f"metadata|annotations|{labels.DRAINING}", "false", READY),
        ("status|conditions|0|status", "False", UNREADY),
        ("status|conditions", [], UNREADY),
        ("status|containerStatuses|0|state", {"terminated": {}}, UNREADY),
        ("status|containerStatuses", None, UNREADY),
    ],
)
def test_states(path: str, value: Any, state: str) -> None:
    found = read_pod(changed(path, value), CONFIG)
    assert found is not None
    assert found.state == state


@pytest.mark.parametrize(
    ("value", "connector"), [(None, "Mooncake"), ("Nixl", "Nixl"), ("Pigeon", "Pigeon")]
)
def test_connectors(value: str | None, connector: str) -> None:
    manifest = pod()
    if value is not None:
        manifest["metadata"]["annotations"][labels.CONNECTOR] = value
    found = read_pod(manifest, CONFIG)
    assert found is not None
    assert found.connector == connector


def test_each_container_is_another_incarnation() -> None:
    kinds = {
        read_pod(changed(f"status|containerStatuses|0|{key}", value), CONFIG)
        for key, value in [("restartCount", 0), ("restartCount", 1), ("containerID", "c://2")]
    }
    kinds.add(read_pod(changed("status|containerStatuses|0|state", {"waiting": {}}), CONFIG))
    assert len({kind.incarnation for kind in kinds if kind}) == 4


class FakeApi:
    """An API server that says what the test puts into `events`; an exception is raised."""

    def __init__(self, *lists: list[dict[str, Any]] | Exception) -> None:
        self.lists = list(lists)
        self.listed = 0
        self.versions: list[str] = []
        self.events: asyncio.Queue[dict[str, Any] | Exception | None] = asyncio.Queue()

    async def list(self) -> tuple[list[dict[str, Any]], str]:
        self.listed += 1
        answer = self.lists.pop(0) if len(self.lists) > 1 else self.lists[0]
        if isinstance(answer, Exception):
            raise answer
        return answer, "5"

    async def watch(self, version: str) -> AsyncIterator[dict[str, Any]]:
        self.versions.append(version)
        while (event := await self.events.get()) is not None:
            if isinstance(event, Exception):
                raise event
            yield event


class Following:
    def __init__(self, *lists: Any) -> None:
        self.api = FakeApi(*lists)
        self.backends = Backends(protocols())
        self.gone: list[Backend] = []
        self.backends.on_gone.append(self.gone.append)

    async def __aenter__(self) -> "Following":
        self.task = asyncio.create_task(Follower(self.api, CONFIG, self.backends).run())
        return self

    async def __aexit__(self, *_: object) -> None:
        self.task.cancel()
        await asyncio.gather(self.task, return_exceptions=True)
        self.backends.close()

    def tell(self, kind: str, item: dict[str, Any]) -> None:
        self.api.events.put_nowait({"type": kind, "object": item})

    def states(self) -> dict[str, str]:
        return {b.pod.name: b.pod.state for b in self.backends.all()}


async def test_list_then_events() -> None:
    async with Following([pod()]) as f:
        name = "tiny-decoder-1234abcd-0"
        await until(lambda: f.states() == {name: READY})
        f.tell("MODIFIED", changed(f"metadata|annotations|{labels.DRAINING}", "true"))
        await until(lambda: f.states() == {name: DRAINING})
        assert f.gone == []
        f.tell("ADDED", pod("tiny-prefiller-1234abcd-0", "prefiller"))
        await until(lambda: len(f.states()) == 2)
        f.tell("DELETED", pod())
        await until(lambda: f.states() == {"tiny-prefiller-1234abcd-0": READY})
        assert [b.pod.name for b in f.gone] == [name]


async def test_a_restarted_container_is_another_backend() -> None:
    async with Following([pod()]) as f:
        await until(f.states)
        (before,) = f.backends.all()
        f.tell("MODIFIED", changed("status|containerStatuses|0|restartCount", 1))
        await until(lambda: f.gone)
        (after,) = f.backends.all()
        assert f.gone == [before]
        assert after is not before


async def test_a_pod_that_loses_its_owner_goes() -> None:
    async with Following([pod()]) as f:
        await until(f.states)
        f.tell("MODIFIED", changed("metadata|ownerReferences", []))
        await until(lambda: not f.states())


async def test_bookmarks_move_the_version_on() -> None:
    async with Following([pod()]) as f:
        f.tell("BOOKMARK", {"metadata": {"resourceVersion": "99"}})
        f.api.events.put_nowait(None)
        await until(lambda: f.api.versions == ["5", "99"])
        assert f.api.listed == 1


@pytest.mark.parametrize(
    "event",
    [
        ExpiredError(),
        {"type": "ERROR", "object": {"code": 410}},
        {"type": "ERROR", "object": {"code": 500, "message": "x"}},
        TimeoutError(),
        ConnectionResetError("x"),
    ],
)
async def test_a_broken_watch_lists_again(event: Any) -> None:
    async with Following([pod()], [pod(), pod("tiny-decoder-1234abcd-1")]) as f:
        await until(lambda: len(f.states()) == 1)
        (before,) = f.backends.all()
        f.api.events.put_nowait(event)
        await until(lambda: len(f.states()) == 2)
        assert before in f.backends.all()
        assert f.gone == []


async def test_last_known_good_while_the_api_server_is_away() -> None:
    away = UnreachableError("x")
    async with Following([pod()], away, away, [pod("tiny-decoder-1234abcd-1")]) as f:
        await until(f.states)
        f.api.events.put_nowait(ConnectionResetError("x"))
        await until(lambda: f.api.listed == 2)
        assert f.states() == {"tiny-decoder-1234abcd-0": READY}
        await until(lambda: f.states() == {"tiny-decoder-1234abcd-1": READY})


async def test_nothing_is_known_before_the_first_list() -> None:
    async with Following(UnreachableError("x")) as f:
        await until(lambda: f.api.listed)
        assert not f.backends.known


@pytest.mark.parametrize(
    ("size", "ordinals"),
    [(None, [0, 1, 2, 3]), ("1", [0, 1, 2, 3]), ("2", [0, 2]), ("4", [0]), ("two", [0, 1, 2, 3])],
)
def test_of_a_group_the_leader_alone_serves(size: str | None, ordinals: list[int]) -> None:
    def serves(ordinal: int) -> bool:
        made = pod(f"tiny-decoder-1234abcd-{ordinal}")
        if size is not None:
            made["metadata"]["annotations"][labels.GROUP_SIZE] = size
        return read_pod(made, CONFIG) is not None

    assert [ordinal for ordinal in range(4) if serves(ordinal)] == ordinals
