"""Views that are behind: stale lists, and conflicts at every first write."""

from pd_operator.errors import ApiError
from pd_operator.kinds import Kind
from tests.faults.controllers import settle
from tests.faults.merge import copied
from tests.faults.server import Id, Manifest, Server
from tests.faults.test_kill import change_pairing, create, roll_decoders, run
from tests.faults.world import KEY, NAMESPACE, World


class Stale(Server):
    """Lists what was there when `freeze` was called."""

    def __init__(self) -> None:
        super().__init__()
        self._frozen: dict[Id, Manifest] | None = None

    def freeze(self) -> None:
        self._frozen = copied(self.objects)

    def thaw(self) -> None:
        self._frozen = None

    def listed(self) -> dict[Id, Manifest]:
        return self.objects if self._frozen is None else self._frozen


async def world_with(server: Server) -> World:
    world = World()
    world.server = server
    world.user()
    await world.converge_with(world.operator())
    return world


async def test_a_list_from_before_the_creation_makes_nothing_twice() -> None:
    server = Stale()
    world = World()
    world.server = server
    world.user()
    server.freeze()
    operator = world.operator()
    await operator(KEY)
    uids = {identity: m["metadata"]["uid"] for identity, m in server.objects.items()}
    before = len(server.writes)
    await operator(KEY)
    assert {identity: m["metadata"]["uid"] for identity, m in server.objects.items()} == uids
    assert {kind for _, kind, _ in server.writes[before:]} <= {"PDDeployment", "Event"}
    server.thaw()
    await world.converge_with(operator)
    assert world.condition("Ready")["status"] == "True"


async def test_a_list_from_before_a_rollout_deletes_nothing_that_serves() -> None:
    """Seen as it was when the old revision was the desired one, the new one looks superseded."""
    server = Stale()
    world = await world_with(server)
    old = {m["metadata"]["name"] for m in server.of("StatefulSet")}
    roll_decoders(world)
    await world.reconcile_with(world.operator())
    settle(server)
    server.freeze()  # both revisions, both ready: the old one may go
    for manifest in list(server.of("StatefulSet")):
        if manifest["metadata"]["name"] not in old:
            # Meanwhile the new one broke.
            broken = copied(manifest)
            broken["status"]["readyReplicas"] = 0
            server.put(broken)
        else:
            touched = {**manifest["metadata"], "annotations": {"a": "b"}}
            server.put({**manifest, "metadata": touched})
    again = await world.operator()(KEY)
    assert again.failed
    assert old <= {m["metadata"]["name"] for m in server.of("StatefulSet")}
    server.thaw()
    await world.converge_with(world.operator())
    assert world.condition("Ready")["status"] == "True"


async def test_a_deleted_child_is_not_brought_back_by_a_list_from_before() -> None:
    server = Stale()
    world = await world_with(server)
    changed = copied(server.objects["Service", NAMESPACE, "tiny-proxy"])
    changed["spec"]["selector"] = {"app": "x"}
    server.put(changed)
    server.freeze()
    server.remove(("Service", NAMESPACE, "tiny-proxy"))
    again = await world.operator()(KEY)
    assert again.failed
    assert ("Service", NAMESPACE, "tiny-proxy") not in server.objects
    server.thaw()
    await world.converge_with(world.operator())
    assert ("Service", NAMESPACE, "tiny-proxy") in server.objects


class Refusing(Server):
    """Answers every first write to an object with a conflict."""

    def __init__(self) -> None:
        super().__init__()
        self.refused: set[tuple[str, str]] = set()

    def _refuse(self, verb: str, name: str) -> None:
        if (verb, name) not in self.refused:
            self.refused.add((verb, name))
            raise ApiError(409, "Conflict", "the object has been modified")

    async def apply(self, manifest: Manifest) -> Manifest:
        self._refuse("apply", f"{manifest['kind']} {manifest['metadata']['name']}")
        return await super().apply(manifest)

    async def apply_status(self, manifest: Manifest) -> Manifest:
        self._refuse("status", manifest["metadata"]["name"])
        return await super().apply_status(manifest)

    async def delete(self, kind: Kind, namespace: str, name: str, uid: str, version: str) -> None:
        self._refuse("delete", f"{kind.name} {name}")
        await super().delete(kind, namespace, name, uid, version)


async def test_a_conflict_at_every_first_write_is_no_error_to_the_user() -> None:
    world = World()
    world.server = Refusing()
    operator = world.operator()
    world.user()
    for step in (create, roll_decoders, change_pairing):
        step(world)
        for _ in range(12):
            await operator(KEY)
            settle(world.server)
            ready = world.condition("Ready")
            assert not ready or ready["reason"] in ("Starting", "RollingOut", "NotCreated", "Ready")
        assert world.condition("Ready")["status"] == "True"
    undisturbed = await run((create, roll_decoders, change_pairing))
    assert world.children() == undisturbed.children()
