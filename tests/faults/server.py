"""An API server in memory: uid, resourceVersion, generation, server-side apply, preconditions.

It implements the operator's `Api`. `collect()` is the garbage collector; the workload controllers
are in controllers.py. What it leaves out is left to the tests on a real API server.
"""

import asyncio
import itertools
from collections.abc import Callable, Iterator
from typing import Any

from pd_operator.errors import ApiError
from pd_operator.kinds import Kind, kind_of
from tests.faults.merge import copied, merge

Manifest = dict[str, Any]
Id = tuple[str, str, str]

_IMMUTABLE = {"StatefulSet": ("selector", "serviceName", "podManagementPolicy")}


class Server:
    """Objects by kind, namespace and name."""

    def __init__(self) -> None:
        self.objects: dict[Id, Manifest] = {}
        self.writes: list[tuple[str, str, str]] = []
        """Verb, kind and name of all writes through the API, also those without effect."""
        self.listeners: list[Callable[[str, Manifest], None]] = []
        """Called with ADDED, MODIFIED or DELETED and the object."""
        self._applied: dict[Id, Manifest] = {}
        self._applied_status: dict[Id, Manifest] = {}
        self._versions = itertools.count(1)
        self._incarnations: dict[Id, int] = {}
        self._young_roles: set[str] = set()

    @property
    def version(self) -> int:
        """The highest resourceVersion."""
        return max(
            (int(o["metadata"]["resourceVersion"]) for o in self.objects.values()), default=0
        )

    # The Api of the operator.

    async def get(self, kind: Kind, namespace: str, name: str) -> Manifest | None:
        await asyncio.sleep(0)
        return copied(self.objects.get((kind.name, namespace, name)))

    async def list(
        self, kind: Kind, namespace: str, labels: str = "", fields: str = ""
    ) -> list[Manifest]:
        await asyncio.sleep(0)
        wanted = dict(part.split("=") for part in labels.split(",") if part)
        found = []
        for (name, space, _), manifest in self.listed().items():
            own = manifest["metadata"].get("labels", {})
            if (
                name == kind.name
                and space == (namespace or space)
                and wanted.items() <= own.items()
            ):
                found.append(copied(manifest))
        return found

    def listed(self) -> dict[Id, Manifest]:
        """What LIST shows; GET and writes see what there is."""
        return self.objects

    async def apply(self, manifest: Manifest) -> Manifest:
        await asyncio.sleep(0)
        identity = self._identity(manifest)
        self._note("apply", identity)
        applied = copied(manifest)
        uid = applied["metadata"].pop("uid", None)
        live = self.objects.get(identity)
        if uid is not None and (live is None or live["metadata"]["uid"] != uid):
            raise ApiError(409, "Conflict", f"the UID in the precondition ({uid}) does not match")
        self._refuse_missing_role(applied)
        if live is None:
            new = merge({}, applied, {})
        else:
            new = merge(live, applied, self._applied.get(identity, {}))
            new["status"] = live.get("status", {})
        self._applied[identity] = copied(applied)
        return self._store(identity, new)

    async def apply_status(self, manifest: Manifest) -> Manifest:
        await asyncio.sleep(0)
        identity = self._identity(manifest)
        self._note("apply_status", identity)
        live = self.objects.get(identity)
        if live is None:
            raise ApiError(404, "NotFound", f"{identity[0].lower()}s {identity[2]!r} not found")
        if manifest["metadata"].get("uid", live["metadata"]["uid"]) != live["metadata"]["uid"]:
            raise ApiError(409, "Conflict", "the UID in the precondition does not match")
        status = copied(manifest["status"])
        last = self._applied_status.get(identity, {})
        new = {**live, "status": merge(live.get("status", {}), status, last)}
        self._applied_status[identity] = copied(status)
        return self._store(identity, new)

    async def create(self, manifest: Manifest) -> Manifest:
        await asyncio.sleep(0)
        identity = self._identity(manifest)
        self._note("create", identity)
        if identity in self.objects:
            raise ApiError(409, "AlreadyExists", f"{identity[2]!r} already exists")
        return self._store(identity, copied(manifest))

    async def replace(self, manifest: Manifest) -> Manifest:
        await asyncio.sleep(0)
        identity = self._identity(manifest)
        self._note("replace", identity)
        live = self.objects.get(identity)
        if live is None:
            raise ApiError(404, "NotFound", f"{identity[2]!r} not found")
        if manifest["metadata"]["resourceVersion"] != live["metadata"]["resourceVersion"]:
            raise ApiError(409, "Conflict", "the object has been modified")
        return self._store(identity, copied(manifest))

    async def delete(
        self, kind: Kind, namespace: str, name: str, uid: str, resource_version: str
    ) -> None:
        await asyncio.sleep(0)
        identity = (kind.name, namespace, name)
        self._note("delete", identity)
        live = self.objects.get(identity)
        if live is None:
            return
        metadata = live["metadata"]
        if uid not in ("", metadata["uid"]) or resource_version not in (
            "",
            metadata["resourceVersion"],
        ):
            raise ApiError(409, "Conflict", "the precondition does not match")
        self.remove(identity)

    # What others do to the cluster.

    def put(self, manifest: Manifest) -> Manifest:
        """Create or replace as a user does; metadata that is not given is kept."""
        identity = self._identity(manifest)
        live = self.objects.get(identity, {"metadata": {}})
        new = copied(manifest)
        new["metadata"] = {**live["metadata"], **new["metadata"]}
        new.setdefault("status", live.get("status", {}))
        return self._store(identity, new)

    def remove(self, identity: Id) -> None:
        """Delete at once."""
        self._tell("DELETED", self.objects.pop(identity))
        self._applied.pop(identity, None)
        self._applied_status.pop(identity, None)

    def collect(self) -> bool:
        """Remove what has an owner that is gone; whether there was any."""
        removed = False
        while True:
            uids = {o["metadata"]["uid"] for o in self.objects.values()}
            gone = [
                identity
                for identity, manifest in self.objects.items()
                if (owners := manifest["metadata"].get("ownerReferences"))
                and not any(owner["uid"] in uids for owner in owners)
            ]
            if not gone:
                return removed
            removed = True
            for identity in gone:
                self.remove(identity)

    def of(self, kind: str) -> Iterator[Manifest]:
        """All objects of a kind; to be read only."""
        return (m for (name, _, _), m in list(self.objects.items()) if name == kind)

    def _store(self, identity: Id, new: Manifest) -> Manifest:
        live = self.objects.get(identity)
        _validate(live, new)
        _default(new)
        metadata = new["metadata"]
        if live is None:
            self._incarnations[identity] = self._incarnations.get(identity, 0) + 1
            # Equal in every run of the same scenario, so that runs can be compared.
            metadata["uid"] = "/".join((*identity, str(self._incarnations[identity])))
            metadata["creationTimestamp"] = f"t{next(self._versions):08d}"
            metadata["generation"] = 1
        elif new == live:
            return copied(live)
        elif new.get("spec") != live.get("spec"):
            metadata["generation"] = live["metadata"]["generation"] + 1
        metadata["resourceVersion"] = str(next(self._versions))
        self.objects[identity] = new
        if live is None and identity[0] == "Role":
            self._young_roles.add(identity[2])
        self._tell("ADDED" if live is None else "MODIFIED", new)
        return copied(new)

    def _tell(self, event: str, manifest: Manifest) -> None:
        for listener in self.listeners:
            listener(event, copied(manifest))

    def _refuse_missing_role(self, manifest: Manifest) -> None:
        # The authorizer's cache is behind for a moment: seen on real API servers.
        role = manifest.get("roleRef", {}).get("name")
        if role in self._young_roles:
            self._young_roles.discard(role)
            raise ApiError(404, "NotFound", f"roles.rbac.authorization.k8s.io {role!r} not found")

    def _note(self, verb: str, identity: Id) -> None:
        self.writes.append((verb, identity[0], identity[2]))

    @staticmethod
    def _identity(manifest: Manifest) -> Id:
        return (
            manifest["kind"] if manifest["kind"] == "ReplicaSet" else kind_of(manifest).name,
            manifest["metadata"]["namespace"],
            manifest["metadata"]["name"],
        )


def _validate(live: Manifest | None, new: Manifest) -> None:
    references = new["metadata"].get("ownerReferences", ())
    if sum(bool(reference.get("controller")) for reference in references) > 1:
        raise ApiError(422, "Invalid", "Only one reference can have Controller set to true")
    for field in _IMMUTABLE.get(new["kind"], ()) if live is not None else ():
        if live is not None and live["spec"].get(field) != new["spec"].get(field):
            raise ApiError(422, "Invalid", f"updates to statefulset spec: {field} is forbidden")


def _default(manifest: Manifest) -> None:
    """Fields that the API server adds to the operator's children."""
    if manifest["kind"] == "Service":
        manifest["spec"].setdefault("sessionAffinity", "None")
        for port in manifest["spec"].get("ports", ()):
            port.setdefault("protocol", "TCP")
    elif manifest["kind"] in ("StatefulSet", "Deployment"):
        manifest["spec"].setdefault("revisionHistoryLimit", 10)
        pod = manifest["spec"]["template"]["spec"]
        pod.setdefault("restartPolicy", "Always")
        pod.setdefault("schedulerName", "default-scheduler")
        for container in pod["containers"]:
            container.setdefault("terminationMessagePolicy", "File")
            for port in container.get("ports", ()):
                port.setdefault("protocol", "TCP")
