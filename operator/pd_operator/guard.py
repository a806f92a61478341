"""An Api that writes only while this process leads, and counts what it wrote."""

from collections.abc import Callable

from pd_operator.client import Api, Manifest, Manifests
from pd_operator.errors import FencedError
from pd_operator.kinds import Kind
from pd_operator.metrics import Metrics


class GuardedApi:
    """Reads pass; a write while `leads()` is false raises FencedError.

    A process that was frozen for a while goes on in the middle of a reconcile, long before it
    learns that another one leads.
    """

    def __init__(self, api: Api, leads: Callable[[], bool], metrics: Metrics) -> None:
        self._api = api
        self._leads = leads
        self._metrics = metrics

    async def get(self, kind: Kind, namespace: str, name: str) -> Manifest | None:
        """See Api."""
        return await self._api.get(kind, namespace, name)

    async def list(
        self, kind: Kind, namespace: str, labels: str = "", fields: str = ""
    ) -> Manifests:
        """See Api."""
        return await self._api.list(kind, namespace, labels, fields)

    async def apply(self, manifest: Manifest) -> Manifest:
        """See Api."""
        self._check()
        written = await self._api.apply(manifest)
        self._metrics.wrote(manifest["kind"], "apply")
        return written

    async def apply_status(self, manifest: Manifest) -> Manifest:
        """See Api."""
        self._check()
        written = await self._api.apply_status(manifest)
        self._metrics.wrote(manifest["kind"], "apply_status")
        return written

    async def create(self, manifest: Manifest) -> Manifest:
        """See Api."""
        self._check()
        written = await self._api.create(manifest)
        self._metrics.wrote(manifest["kind"], "create")
        return written

    async def replace(self, manifest: Manifest) -> Manifest:
        """See Api."""
        self._check()
        written = await self._api.replace(manifest)
        self._metrics.wrote(manifest["kind"], "replace")
        return written

    async def delete(
        self, kind: Kind, namespace: str, name: str, uid: str, resource_version: str
    ) -> None:
        """See Api."""
        self._check()
        await self._api.delete(kind, namespace, name, uid, resource_version)
        self._metrics.wrote(kind.name, "delete")

    def _check(self) -> None:
        if not self._leads():
            raise FencedError("this process does not lead any more")
