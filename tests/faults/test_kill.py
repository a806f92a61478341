"""The operator dies after each of its writes, and what comes after is as if it had not."""

from collections.abc import Callable, Sequence

import pytest

from pd_operator.autoscale.decision import Limit, Reason, TierDecision
from pd_operator.traffic import Outlook
from tests.faults.server import Manifest
from tests.faults.world import KEY, World

Step = Callable[[World], None]


def edit(change: Callable[[Manifest], object]) -> Step:
    def step(world: World) -> None:
        world.user(change)

    return step


def create_anew(world: World) -> None:
    world.delete()
    world.user()


def scale_decoders(world: World) -> None:
    decision = TierDecision(1, 3, 3, Reason.TPOT_ABOVE_TARGET, Limit.NONE, "p95 60 ms")
    world.scaler.outlook = Outlook(decode=decision)


create: Step = World.user
roll_decoders = edit(lambda spec: spec["decode"]["resources"].update(requests={"cpu": "200m"}))
change_pairing = edit(lambda spec: spec["engine"].update(image="engine:2"))
scale = edit(lambda spec: spec["decode"].update(replicas=3))
scale_back = edit(lambda spec: spec["decode"].update(replicas=1))
store_on = edit(
    lambda spec: spec.update(
        mooncake={"store": {"enabled": True, "segmentSize": "64Mi", "localBufferSize": "64Mi"}}
    )
)
store_off = edit(lambda spec: spec.pop("mooncake"))
auto = edit(
    lambda spec: spec.update(
        autoscaling={"mode": "Auto", "slo": {"tpot": "50ms"}, "decode": {"min": 1, "max": 4}}
    )
)

SCENARIOS: dict[str, Sequence[Step]] = {
    "create": (create,),
    "roll one tier": (create, roll_decoders),
    "roll back": (
        create,
        roll_decoders,
        edit(lambda s: s["decode"]["resources"].update(requests={"cpu": "100m", "memory": "1Gi"})),
    ),
    "change the pairing": (create, change_pairing),
    "scale by the spec": (create, scale, scale_back),
    "scale by the autoscaler": (create, auto, scale_decoders, roll_decoders),
    "store on and off": (create, store_on, store_off),
    "delete and create again": (create, World.delete, create),
    "delete and create at once": (create, create_anew),
}


async def run(steps: Sequence[Step], kill_after: int | None = None) -> World:
    world = World(kill_after)
    for step in steps:
        step(world)
        await world.converge()
    return world


@pytest.mark.parametrize("name", SCENARIOS)
async def test_a_kill_after_any_write_changes_nothing(name: str) -> None:
    undisturbed = await run(SCENARIOS[name])
    assert undisturbed.condition("Ready")["status"] == "True"
    total = len(undisturbed.server.writes)
    for after in range(1, total + 1):
        world = await run(SCENARIOS[name], kill_after=after)
        assert world.killed, after
        # UIDs are of the incarnation: nothing was made twice, no pod was started again.
        assert world.children() == undisturbed.children(), after
        # Events about a write itself are posted after it, once: they may be lost, not doubled.
        lost = set(undisturbed.events()) - set(world.events())
        assert lost <= {"Created", "Scaled"}, after
        assert set(world.events()) <= set(undisturbed.events()), after
        before = len(world.server.writes)
        again = await world.operator()(KEY)
        assert (again.failed, again.after) == (False, None)
        assert len(world.server.writes) == before, world.server.writes[before:]
