"""Lost events, a lost Lease, two operators at once, and rollouts that never stop serving."""

import asyncio
from collections.abc import Sequence

import pytest

from pd_operator import kinds, resync
from pd_operator.guard import GuardedApi
from pd_operator.handlers import Wake
from pd_operator.metrics import Metrics
from pd_operator.queue import Again, Key, Queue
from tests.faults.controllers import settle
from tests.faults.server import Manifest
from tests.faults.test_kill import SCENARIOS, Step, create, roll_decoders, run
from tests.faults.world import KEY, NAMESPACE, World


class Loop:
    """Queue, handlers and reconciler joined as in the process, with events that may be dropped."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.drop: set[int] = set()
        self.events = 0
        self.queue = Queue(self._reconcile, workers=2, base=0.001, limit=0.01)
        self._operator = world.operator()
        self._wake = Wake(lambda key, _: self.queue.add(key), lambda: None)
        world.server.listeners.append(self._event)

    async def _reconcile(self, key: Key) -> Again:
        return await self._operator(key)

    def _event(self, event: str, manifest: Manifest) -> None:
        self.events += 1
        if self.events in self.drop:
            return
        if manifest["kind"] == kinds.PD_DEPLOYMENT.name:
            self._wake.deployment(event, manifest["metadata"])
        elif manifest["kind"] != "Event":
            self._wake.child(manifest["metadata"])

    async def quiet(self) -> None:
        """Let operator and controllers work until neither has anything left to do."""
        while True:
            await self.queue.idle()
            before = (self.world.server.version, len(self.world.server.objects))
            settle(self.world.server)
            if (self.world.server.version, len(self.world.server.objects)) == before:
                return

    async def resync(self) -> None:
        """What the process does from time to time."""
        await resync.once(self.world.server, (), 0.0, self.queue.add)


async def scenario(
    drop: set[int], resyncs: bool, steps: Sequence[Step] = (create, roll_decoders)
) -> Loop:
    world = World()
    loop = Loop(world)
    loop.drop = drop
    loop.queue.start()
    for step in steps:
        step(world)
        await loop.quiet()
        if resyncs:
            await loop.resync()
            await loop.quiet()
    await loop.queue.stop(1)
    return loop


async def test_any_one_dropped_event_is_mended_by_the_next_resync() -> None:
    undisturbed = await scenario(set(), resyncs=True)
    assert undisturbed.world.condition("Ready")["status"] == "True"
    assert undisturbed.events > 20
    for number in range(1, undisturbed.events + 1):
        loop = await scenario({number}, resyncs=True)
        assert loop.world.children() == undisturbed.world.children(), number


async def test_without_a_resync_a_dropped_event_is_lost() -> None:
    """The test above can fail: the first event alone tells of the PDDeployment."""
    loop = await scenario({1}, resyncs=False, steps=(create,))
    assert list(loop.world.server.of("StatefulSet")) == []


async def test_steady_state_writes_nothing_over_many_resyncs() -> None:
    world = World()
    loop = Loop(world)
    loop.queue.start()
    create(world)
    await loop.quiet()
    before = len(world.server.writes)
    for _ in range(5):
        await loop.resync()
        await loop.quiet()
    await loop.queue.stop(1)
    assert world.server.writes[before:] == []


async def test_after_the_lease_is_lost_no_write_follows() -> None:
    world = World()
    leads = True
    api = GuardedApi(world.server, lambda: leads, Metrics())
    operator = world.operator(api)
    world.user()

    def lose(_: str, manifest: Manifest) -> None:
        nonlocal leads
        leads = leads and manifest["kind"] != "Role"

    world.server.listeners.append(lose)
    again = await operator(KEY)
    assert again == Again()
    assert not list(world.server.of("StatefulSet"))
    assert "status" not in world.cr or world.cr["status"] == {}


async def test_two_at_once_end_as_one_would() -> None:
    """An old leader in its last reconcile beside a new one."""
    world = World()
    world.user()
    await asyncio.gather(world.operator()(KEY), world.operator()(KEY))
    await world.converge()
    undisturbed = await run((create,))
    plain = world.children()
    assert sorted(plain) == sorted(undisturbed.children())
    key = f"StatefulSet/{NAMESPACE}"
    for name in (k for k in plain if k.startswith(key)):
        assert plain[name]["metadata"]["uid"].endswith("/1")
    assert world.condition("Ready")["status"] == "True"


@pytest.mark.parametrize("name", ["roll one tier", "change the pairing"])
async def test_a_rollout_never_leaves_a_tier_without_ready_pods(name: str) -> None:
    world = World()
    created = False
    for step in SCENARIOS[name]:
        step(world)
        for _ in range(15):
            await world.reconcile()
            for word in ("prefiller", "decoder"):
                ready = [
                    m["status"]["readyReplicas"]
                    for m in world.server.of("StatefulSet")
                    if word in m["metadata"]["name"] and "status" in m
                ]
                assert not created or sum(ready) >= 1
            settle(world.server)
        created = True
    assert world.condition("Ready")["status"] == "True"


async def test_a_bad_image_is_mended_by_a_good_one_alone() -> None:
    world = World()
    create(world)
    await world.converge()
    world.user(lambda spec: spec["engine"].update(image="engine:bad"))
    bad = {"engine:bad"}

    def ready(pod: Manifest) -> bool:
        owner = pod["metadata"]["ownerReferences"][0]["name"]
        workload = world.server.objects.get(("StatefulSet", NAMESPACE, owner))
        if workload is None:
            return True
        return workload["spec"]["template"]["spec"]["containers"][0]["image"] not in bad

    world.ready = ready
    await world.converge()
    assert world.condition("Ready")["status"] == "False"
    # The revision that served still does.
    assert len(list(world.server.of("StatefulSet"))) == 4
    world.user(lambda spec: spec["engine"].update(image="engine:good"))
    await world.converge()
    assert world.condition("Ready")["status"] == "True"
    assert len(list(world.server.of("StatefulSet"))) == 2
