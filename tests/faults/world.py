"""A cluster in memory with an operator in it that can be killed and started again."""

from collections.abc import Awaitable, Callable
from typing import Any, TypeVar

from pd_operator.api.deployment import API_VERSION, KIND, PDDeployment
from pd_operator.build import Defaults
from pd_operator.client import Api
from pd_operator.errors import ApiError
from pd_operator.kinds import Kind
from pd_operator.metrics import Metrics
from pd_operator.observe import Snapshot
from pd_operator.queue import Again
from pd_operator.reconcile import Reconciler
from pd_operator.traffic import Outlook
from tests.faults.controllers import Ready, settle
from tests.faults.merge import copied
from tests.faults.server import Manifest, Server
from tests.kube import example

NAMESPACE = "ns"
NAME = "tiny"
KEY = (NAMESPACE, NAME)
_ROUNDS = 30
T = TypeVar("T")


class KilledError(Exception):
    """The operator died: nothing of it goes on."""


class Faulty:
    """Passes calls on until the `after`-th write was done; that one's answer is lost."""

    def __init__(self, api: Api, after: int | None) -> None:
        self._api = api
        self._left = after
        self._dead = False

    async def get(self, kind: Kind, namespace: str, name: str) -> Manifest | None:
        self._check()
        return await self._api.get(kind, namespace, name)

    async def list(
        self, kind: Kind, namespace: str, labels: str = "", fields: str = ""
    ) -> list[Manifest]:
        self._check()
        return await self._api.list(kind, namespace, labels, fields)

    async def apply(self, manifest: Manifest) -> Manifest:
        self._check()
        return await self._written(self._api.apply(manifest))

    async def apply_status(self, manifest: Manifest) -> Manifest:
        self._check()
        return await self._written(self._api.apply_status(manifest))

    async def create(self, manifest: Manifest) -> Manifest:
        self._check()
        return await self._written(self._api.create(manifest))

    async def replace(self, manifest: Manifest) -> Manifest:
        self._check()
        return await self._written(self._api.replace(manifest))

    async def delete(
        self, kind: Kind, namespace: str, name: str, uid: str, resource_version: str
    ) -> None:
        self._check()
        await self._written(self._api.delete(kind, namespace, name, uid, resource_version))

    def _check(self) -> None:
        if self._dead:
            raise KilledError

    async def _written(self, call: Awaitable[T]) -> T:
        try:
            result = await call
        except ApiError:
            if self._left is not None:
                self._count()
            raise
        if self._left is not None:
            self._count()
        return result

    def _count(self) -> None:
        if self._left is not None:
            self._left -= 1
            self._dead = self._left <= 0
        self._check()


class FixedScaler:
    """Answers with what it was given."""

    def __init__(self) -> None:
        self.outlook = Outlook()

    async def look(self, deployment: PDDeployment, snapshot: Snapshot) -> Outlook:
        return self.outlook

    def forget(self, namespace: str, name: str) -> None:
        pass


class World:
    """`kill_after` counts the operator's writes over the world's whole life."""

    def __init__(self, kill_after: int | None = None) -> None:
        self.server = Server()
        self.scaler = FixedScaler()
        self.ready: Ready = lambda _: True
        self.killed = False
        self.time = "2026-01-01T00:00:00Z"
        self.metrics = Metrics()
        self._operator = self.operator(Faulty(self.server, kill_after))

    def operator(self, api: Api | None = None) -> Reconciler:
        """A freshly started operator."""
        defaults = Defaults("proxy:1", "mooncake:1")
        return Reconciler(
            api or self.server, defaults, self.scaler, self.metrics, now=lambda: self.time
        )

    async def reconcile(self) -> Again:
        """One reconcile; where the operator dies in it, another one is started."""
        try:
            return await self._operator(KEY)
        except KilledError:
            self.killed = True
            self._operator = self.operator()
            return await self._operator(KEY)

    async def reconcile_with(self, operator: Reconciler) -> Again:
        """One reconcile with another operator from now on."""
        self._operator = operator
        return await self.reconcile()

    async def converge_with(self, operator: Reconciler) -> None:
        """The same with another operator from now on."""
        self._operator = operator
        await self.converge()

    async def converge(self) -> None:
        """Reconcile and let the controllers work until neither changes anything."""
        for _ in range(_ROUNDS):
            before = (self.server.version, len(self.server.objects))
            await self.reconcile()
            settle(self.server, self.ready)
            if (self.server.version, len(self.server.objects)) == before:
                return
        raise AssertionError(f"no rest after {_ROUNDS} rounds: {self.server.writes[-10:]}")

    def user(self, change: Callable[[Manifest], object] = lambda _: None) -> None:
        """Create the PDDeployment, or edit its spec."""
        found = self.server.objects.get((KIND, NAMESPACE, NAME))
        spec = copied(found["spec"] if found else example("tiny-cpu")["spec"])
        change(spec)
        self.server.put(
            {
                "apiVersion": API_VERSION,
                "kind": KIND,
                "metadata": {"name": NAME, "namespace": NAMESPACE},
                "spec": spec,
            }
        )

    def delete(self) -> None:
        """The user deletes the PDDeployment."""
        self.server.remove((KIND, NAMESPACE, NAME))

    @property
    def cr(self) -> Manifest:
        """The PDDeployment."""
        return self.server.objects[KIND, NAMESPACE, NAME]

    def condition(self, kind: str) -> dict[str, Any]:
        """A condition of the PDDeployment; empty where it is not there."""
        conditions = self.cr.get("status", {}).get("conditions", [])
        return next((c for c in conditions if c["type"] == kind), {})

    def children(self) -> dict[str, Any]:
        """All objects but Events, without what differs between two equal runs."""
        return {
            "/".join(identity): _plain(manifest)
            for identity, manifest in sorted(self.server.objects.items())
            if identity[0] != "Event"
        }

    def events(self) -> list[str]:
        """Reasons of the Events posted."""
        return [event["reason"] for event in self.server.of("Event")]


def _plain(manifest: Manifest) -> Manifest:
    plain = copied(manifest)
    for key in ("resourceVersion", "creationTimestamp"):
        plain["metadata"].pop(key, None)
    return plain
