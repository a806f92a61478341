"""One reconcile where something is wrong: errors, and children that were disturbed."""

import copy
from collections.abc import Callable
from typing import Any

import pytest

from pd_operator import apply
from pd_operator.errors import ApiError, FencedError
from pd_operator.kinds import Kind
from pd_operator.observe import Manifest
from pd_operator.queue import Again
from tests.faults.server import Server
from tests.faults.world import KEY, NAMESPACE, World


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apply, "_PAUSES", (0.0, 0.0, 0.0))


@pytest.fixture
def world() -> World:
    return World()


class Broken(Server):
    """Raises an error in a method."""

    def __init__(self, method: str, error: Exception) -> None:
        super().__init__()
        self.broken: tuple[str, Exception] | None = (method, error)

    def _check(self, method: str) -> None:
        if self.broken is not None and self.broken[0] == method:
            raise self.broken[1]

    async def get(self, kind: Kind, namespace: str, name: str) -> Manifest | None:
        self._check("get")
        return await super().get(kind, namespace, name)

    async def list(self, *arguments: Any, **named: Any) -> Any:
        self._check("list")
        return await super().list(*arguments, **named)

    async def apply(self, manifest: Manifest) -> Manifest:
        self._check("apply")
        return await super().apply(manifest)

    async def apply_status(self, manifest: Manifest) -> Manifest:
        self._check("apply_status")
        return await super().apply_status(manifest)

    async def create(self, manifest: Manifest) -> Manifest:
        self._check("create")
        return await super().create(manifest)


@pytest.mark.parametrize(
    ("method", "error", "expected"),
    [
        ("get", ApiError(0, "Unreachable", "x"), Again(failed=True)),
        ("list", ApiError(503, "", "x", retry_after=7), Again(after=7, failed=True)),
        ("list", ApiError(403, "Forbidden", "x"), Again(after=30, failed=True)),
        ("apply", ApiError(429, "", "x", retry_after=9), Again(after=9, failed=True)),
        ("apply", ApiError(422, "Invalid", "x"), Again(after=30, failed=True)),
        ("apply", ApiError(500, "", "field not declared in schema"), Again(after=30, failed=True)),
        ("apply", ApiError(500, "", "etcd is slow"), Again(after=0, failed=True)),
        ("apply", ApiError(403, "Forbidden", "ns because it is being terminated"), Again()),
        ("apply", FencedError(), Again()),
        ("apply_status", ApiError(409, "Conflict", "x"), Again(failed=True)),
        ("apply_status", ApiError(404, "NotFound", "pddeployments x not found"), Again()),
        ("create", ApiError(403, "Forbidden", "no Events here"), Again(after=5)),
    ],
)
async def test_what_errors_ask_for(
    world: World, method: str, error: Exception, expected: Again
) -> None:
    broken = Broken(method, error)
    world.server = broken
    operator = world.operator(broken)
    world.user()
    assert await operator(KEY) == expected
    broken.broken = None
    await world.converge_with(operator)
    assert world.condition("Ready")["status"] == "True"


async def test_a_refused_child_is_told_with_the_servers_words(world: World) -> None:
    broken = Broken("apply", ApiError(403, "Forbidden", "exceeded quota: pods"))
    world.server = broken
    operator = world.operator(broken)
    world.user()
    await operator(KEY)
    assert world.condition("Ready")["reason"] == "ApplyFailed"
    assert "exceeded quota: pods" in world.condition("Ready")["message"]


def lose_status(world: World) -> None:
    world.server.put({**world.cr, "status": {}})


def lose_labels(world: World) -> None:
    for manifest in list(world.server.of("Service")):
        changed = copy.deepcopy(manifest)
        changed["metadata"]["labels"] = {}
        world.server.put(changed)


def lose_owners(world: World) -> None:
    for manifest in list(world.server.of("StatefulSet")):
        changed = copy.deepcopy(manifest)
        changed["metadata"]["ownerReferences"] = []
        world.server.put(changed)


def edit(world: World) -> None:
    for manifest in list(world.server.of("StatefulSet")):
        changed = copy.deepcopy(manifest)
        changed["spec"]["replicas"] = 5
        changed["spec"]["template"]["spec"]["containers"][0]["image"] = "other"
        world.server.put(changed)


@pytest.mark.parametrize("disturb", [lose_status, lose_labels, lose_owners, edit])
async def test_what_is_disturbed_comes_back_as_it_was(
    world: World, disturb: Callable[[World], None]
) -> None:
    world.user()
    await world.converge()

    def seen() -> dict[str, Any]:
        found = world.children()
        for manifest in found.values():
            manifest["metadata"].pop("generation")
            manifest["status"] = {**manifest.get("status", {}), "observedGeneration": 0}
        return found

    before = seen()
    disturb(world)
    await world.converge()
    assert seen() == before


@pytest.mark.parametrize("kind", ["ConfigMap", "Role", "Service", "Deployment", "StatefulSet"])
async def test_a_deleted_child_comes_back(world: World, kind: str) -> None:
    world.user()
    await world.converge()
    before = sorted(world.children())
    for manifest in list(world.server.of(kind)):
        world.server.remove((kind, NAMESPACE, manifest["metadata"]["name"]))
    await world.converge()
    assert sorted(world.children()) == before
    assert world.condition("Ready")["status"] == "True"


async def test_metrics_count_results() -> None:
    world = World()
    world.user()
    metrics = world.metrics
    await world.reconcile()
    assert b'pd_operator_reconciles_total{result="ok"} 1.0' in metrics.text()
