"""The process against an API server in memory, over HTTP: lead, reconcile, stop.

kopf is left out (test_handlers.py has it): at its end it cancels all that runs in its loop, here
also the server.
"""

import asyncio
import contextlib
import copy
import signal
from collections.abc import AsyncIterator, Callable

import kopf
import pytest
from aiohttp import web
from kubernetes.aio import client as generated

from pd_operator import __main__ as process
from pd_operator import apply, lease, logs, resync
from pd_operator.client import Api
from pd_operator.errors import ApiError
from pd_operator.kinds import LEASE
from pd_operator.lease import Lease, Times
from pd_operator.settings import Settings, from_environment
from pd_shared import ports
from tests.faults.http import HttpServer
from tests.faults.server import Manifest, Server
from tests.made import raw

SETTINGS = from_environment(
    {
        "PD_NAMESPACE": "pd-system",
        "PD_POD_NAME": "op-1",
        "PD_PROXY_IMAGE": "proxy:1",
        "PD_MOONCAKE_IMAGE": "mooncake:1",
    }
)


class Watcher:
    """Lets a test wait for what happens on the server."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._changed = asyncio.Event()
        server.listeners.append(lambda _, __: self._changed.set())

    async def until(self, what: Callable[[], object]) -> None:
        while not what():
            self._changed.clear()
            await self._changed.wait()

    def lease(self) -> Manifest:
        return self._server.objects[LEASE.name, "pd-system", lease.NAME]


@pytest.fixture
def http() -> HttpServer:
    return HttpServer(Server())


@pytest.fixture
async def watcher(http: HttpServer) -> Watcher:
    return Watcher(http.server)


@pytest.fixture(autouse=True)
async def _connected(http: HttpServer, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[None]:
    async with http.serve() as url:

        async def configuration() -> generated.Configuration:
            return generated.Configuration(host=url)

        async def watching(stop_flag: asyncio.Event, **_: object) -> None:
            await stop_flag.wait()

        monkeypatch.setattr(process, "configuration", configuration)
        monkeypatch.setattr(kopf, "operator", watching)
        monkeypatch.setattr(ports, "OPERATOR_HEALTH", 0)
        monkeypatch.setattr(ports, "OPERATOR_METRICS", 0)
        monkeypatch.setattr(apply, "_PAUSES", (0.0, 0.0, 0.0))
        monkeypatch.setattr(resync, "_RETRY", 0.001)
        yield


@contextlib.asynccontextmanager
async def running(settings: Settings = SETTINGS) -> AsyncIterator["asyncio.Task[int]"]:
    task = asyncio.create_task(process.run(settings))
    try:
        yield task
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_a_life(http: HttpServer, watcher: Watcher) -> None:
    server = http.server
    server.put(raw())
    async with running() as task:
        await watcher.until(lambda: next(server.of("PDDeployment"))["status"])
        assert watcher.lease()["spec"]["holderIdentity"] == "op-1"
        assert len(list(server.of("StatefulSet"))) == 2
        signal.raise_signal(signal.SIGTERM)
        assert await task == 0
    assert watcher.lease()["spec"]["holderIdentity"] == ""


async def test_a_standby_ends_on_a_signal_and_writes_nothing(
    http: HttpServer, watcher: Watcher
) -> None:
    http.server.put(
        {
            "apiVersion": LEASE.api_version,
            "kind": LEASE.name,
            "metadata": {"name": lease.NAME, "namespace": "pd-system"},
            "spec": {"holderIdentity": "op-2", "leaseDurationSeconds": 15},
        }
    )
    async with running() as task:
        await http.asked(f"{LEASE.root}/namespaces/pd-system/leases/{lease.NAME}")
        signal.raise_signal(signal.SIGTERM)
        assert await task == 0
    assert http.writes() == []


async def test_a_lost_lease_ends_the_process(
    http: HttpServer, watcher: Watcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    def quick(api: Api, namespace: str, identity: str) -> Lease:
        return Lease(api, namespace, identity, Times(renew=0.001))

    monkeypatch.setattr(process, "Lease", quick)
    async with running() as task:
        await watcher.until(lambda: (LEASE.name, "pd-system", lease.NAME) in http.server.objects)
        taken = copy.deepcopy(watcher.lease())
        taken["spec"]["holderIdentity"] = "op-2"
        http.server.put(taken)
        assert await task == 1
    assert watcher.lease()["spec"]["holderIdentity"] == "op-2"


async def test_it_waits_for_the_crd(http: HttpServer, watcher: Watcher) -> None:
    path = "/apis/pd-operator.io/v1alpha1/pddeployments"
    absent = {"reason": "NotFound", "message": "the server could not find it"}
    http.fail["GET", path] = [web.json_response(absent, status=404) for _ in range(3)]
    async with running() as task:
        await watcher.until(lambda: (LEASE.name, "pd-system", lease.NAME) in http.server.objects)
        assert http.fail["GET", path] == []
        signal.raise_signal(signal.SIGTERM)
        assert await task == 0


def test_a_setting_that_is_missing_is_told_in_a_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("PD_NAMESPACE", "PD_POD_NAME"):
        monkeypatch.delenv(name, raising=False)
    assert process.main() == 2
    assert capsys.readouterr().err == "pd-operator: PD_NAMESPACE is not set: the chart sets it\n"


def test_no_cluster_is_told_in_a_line(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def configuration() -> generated.Configuration:
        raise ApiError(0, "NoConfiguration", "no access to a cluster")

    monkeypatch.setattr(process, "configuration", configuration)
    monkeypatch.setattr(process, "from_environment", lambda _: SETTINGS)
    monkeypatch.setattr(logs, "configure", lambda _: None)
    assert process.main() == 1
    assert "cannot start: NoConfiguration: no access to a cluster" in caplog.text


def test_health_says_why() -> None:
    class Dead:
        alive = False

    class Alive:
        alive = True

    assert process._health(Alive()).status == 200  # type: ignore[arg-type]  # all it looks at
    answer = process._health(Dead())  # type: ignore[arg-type]  # all it looks at
    assert answer.status == 503
    assert b"no event" in answer.body
