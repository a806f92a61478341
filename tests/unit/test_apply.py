"""Carrying out a plan: order, conflicts, retries, and failures that stay alone."""

import asyncio
from typing import Any

import pytest

from pd_operator import apply, kinds
from pd_operator.apply import carry_out
from pd_operator.errors import ApiError
from pd_operator.observe import Manifest, Ref
from pd_operator.outcome import Outcome
from pd_operator.plan import Change, Plan, Replicas, marked, plan
from tests.faults.server import Server
from tests.made import NAMESPACE, OWNER, snapshot, wanted

DESIRED = wanted()
ALL = plan(snapshot([]), DESIRED, Replicas(1, 1))


@pytest.fixture(autouse=True)
def _no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(apply, "_PAUSES", (0.0, 0.0, 0.0))


class Failing(Server):
    """Refuses some applies, by kind and name."""

    def __init__(self, **errors: list[ApiError]) -> None:
        super().__init__()
        self.errors = {key.replace("_", "-"): found for key, found in errors.items()}
        self.most = 0
        self._now = 0

    async def apply(self, manifest: Manifest) -> Manifest:
        self._now += 1
        self.most = max(self.most, self._now)
        try:
            await asyncio.sleep(0)
            found = self.errors.get(f"{manifest['kind']}-{manifest['metadata']['name']}")
            if found:
                raise found.pop(0)
            return await super().apply(manifest)
        finally:
            self._now -= 1


def names(outcome: Outcome) -> set[str]:
    return {f"{m['kind']} {m['metadata']['name']}" for m in outcome.created}


async def test_all_is_created_side_by_side_and_workloads_last() -> None:
    server = Failing()
    outcome = await carry_out(server, OWNER, ALL)
    assert len(outcome.created) == len(ALL.apply)
    assert outcome.failed == ()
    order = [kind for _, kind, _ in server.writes]
    early = max(order.index(kind) for kind in ("ServiceAccount", "ConfigMap", "Role"))
    assert early < min(order.index(kind) for kind in ("StatefulSet", "Deployment", "RoleBinding"))
    assert 1 < server.most <= 8


async def test_a_failing_child_does_not_stop_the_others() -> None:
    refused = ApiError(422, "Invalid", "bad port")
    outcome = await carry_out(Failing(Service_tiny_proxy=[refused]), OWNER, ALL)
    assert len(outcome.created) == len(ALL.apply) - 1
    (failed,) = outcome.failed
    assert (str(failed.ref), failed.error) == ("Service tiny-proxy", refused)


@pytest.mark.parametrize("status", [404, 409])
async def test_what_the_server_does_not_know_yet_is_tried_again(status: int) -> None:
    briefly = [ApiError(status, "x", "role not found")] * 2
    outcome = await carry_out(Failing(RoleBinding_tiny_proxy=briefly), OWNER, ALL)
    assert outcome.failed == ()
    assert "RoleBinding tiny-proxy" in names(outcome)


async def test_it_is_not_tried_for_ever() -> None:
    server = Failing(RoleBinding_tiny_proxy=[ApiError(404, "NotFound", "no role")] * 9)
    outcome = await carry_out(server, OWNER, ALL)
    assert [str(failed.ref) for failed in outcome.failed] == ["RoleBinding tiny-proxy"]
    assert len(server.errors["RoleBinding-tiny-proxy"]) == 5


async def test_a_namespace_that_ends_is_not_tried_again() -> None:
    ending = ApiError(404, "NotFound", 'namespaces "ns" not found')
    server = Failing(Service_tiny_proxy=[ending] * 9)
    await carry_out(server, OWNER, ALL)
    assert len(server.errors["Service-tiny-proxy"]) == 8


def held(**metadata: Any) -> Manifest:
    service = next(c.manifest for c in ALL.apply if str(c.ref) == "Service tiny-proxy")
    return {**service, "metadata": {**service["metadata"], **metadata}}


@pytest.mark.parametrize(
    "metadata",
    [
        {"ownerReferences": [], "labels": {}},
        {
            "ownerReferences": [
                {"apiVersion": "v1", "kind": "Other", "name": "o", "uid": "u", "controller": True}
            ]
        },
    ],
)
async def test_somebody_elses_object_is_left_alone(metadata: Manifest) -> None:
    server = Failing()
    before = server.put(held(**metadata))
    outcome = await carry_out(server, OWNER, ALL)
    assert [str(ref) for ref in outcome.conflicts] == ["Service tiny-proxy"]
    assert server.objects["Service", NAMESPACE, "tiny-proxy"] == before
    assert len(outcome.created) == len(ALL.apply) - 1


async def test_an_own_object_that_lost_its_label_is_mended() -> None:
    server = Failing()
    service = held()
    del service["metadata"]["labels"]
    uid = server.put(service)["metadata"]["uid"]
    outcome = await carry_out(server, OWNER, ALL)
    assert [m["metadata"]["uid"] for m in outcome.changed] == [uid]


async def test_an_own_object_that_the_list_did_not_show_is_not_written() -> None:
    server = Failing()
    server.put(held())
    outcome = await carry_out(server, OWNER, ALL)
    assert outcome.changed == ()
    assert ("apply", "Service", "tiny-proxy") not in server.writes


async def test_an_object_that_is_about_to_go_is_waited_for() -> None:
    server = Failing()
    server.put(held(deletionTimestamp="t"))
    outcome = await carry_out(server, OWNER, ALL)
    assert [str(ref) for ref in outcome.waiting] == ["Service tiny-proxy"]


async def test_a_look_up_that_fails_stays_alone() -> None:
    class Blind(Failing):
        async def get(self, kind: kinds.Kind, namespace: str, name: str) -> Manifest | None:
            if (kind, name) == (kinds.SERVICE, "tiny-proxy"):
                raise ApiError(503, "", "away")
            return await super().get(kind, namespace, name)

    outcome = await carry_out(Blind(), OWNER, ALL)
    assert [str(failed.ref) for failed in outcome.failed] == ["Service tiny-proxy"]
    assert len(outcome.created) == len(ALL.apply) - 1


async def test_an_object_that_is_gone_is_not_brought_back_by_an_old_plan() -> None:
    server = Failing()
    change = Change(marked(DESIRED.objects[0]), uid="gone")
    outcome = await carry_out(server, OWNER, Plan(apply=(change,)))
    assert [failed.error.status for failed in outcome.failed] == [409]
    assert server.objects == {}
    assert len(server.writes) == 1


async def test_deleting_minds_the_incarnation() -> None:
    server = Failing()
    made = server.put(held())
    uid, version = made["metadata"]["uid"], made["metadata"]["resourceVersion"]
    stale = Ref(kinds.SERVICE, "tiny-proxy", "older", version)
    outcome = await carry_out(server, OWNER, Plan(delete=(stale,)))
    assert [str(failed.ref) for failed in outcome.failed] == ["Service tiny-proxy"]
    right = Ref(kinds.SERVICE, "tiny-proxy", uid, version)
    outcome = await carry_out(server, OWNER, Plan(delete=(right,)))
    assert outcome.deleted == (right,)
    assert server.objects == {}
