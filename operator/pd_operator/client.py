"""A thin edge over the asyncio half of the official client: JSON in, JSON out.

`Api` is all that the operator does to the cluster; tests inject another one.
"""

import json
import os
from collections.abc import Iterable, Mapping
from typing import Any, Final, Protocol

import aiohttp
from kubernetes.aio import client, config

from pd_operator.errors import ApiError
from pd_operator.kinds import Kind, kind_of

Manifest = dict[str, Any]
Manifests = list[Manifest]

FIELD_MANAGER: Final = "pd-operator"
_CONNECT_SECONDS: Final = 5.0
_REQUEST_SECONDS: Final = 30.0
_CHUNK: Final = 500
_config: Final[Any] = config  # its loaders have no types


class Api(Protocol):
    """What the operator asks of an API server; every method raises ApiError."""

    async def get(self, kind: Kind, namespace: str, name: str) -> Manifest | None:
        """One object; None where there is none."""

    async def list(
        self, kind: Kind, namespace: str, labels: str = "", fields: str = ""
    ) -> Manifests:
        """All objects that the selectors match; an empty namespace means all namespaces."""

    async def apply(self, manifest: Manifest) -> Manifest:
        """Server-side apply, forced; a `metadata.uid` in the manifest must match."""

    async def apply_status(self, manifest: Manifest) -> Manifest:
        """The same for the status subresource."""

    async def create(self, manifest: Manifest) -> Manifest:
        """Create; 409 where it exists."""

    async def replace(self, manifest: Manifest) -> Manifest:
        """Replace; 409 where `metadata.resourceVersion` is not the latest."""

    async def delete(
        self, kind: Kind, namespace: str, name: str, uid: str, resource_version: str
    ) -> None:
        """Delete just this incarnation at this version; 409 otherwise. None left: no error."""


class KubernetesApi:
    """The API server, over HTTP."""

    def __init__(self, configuration: Any) -> None:
        # Any: the generated client is only half typed.
        self._client: Any = client.ApiClient(configuration)
        self._client.user_agent = FIELD_MANAGER
        self._timeout = aiohttp.ClientTimeout(total=_REQUEST_SECONDS, connect=_CONNECT_SECONDS)

    async def close(self) -> None:
        """Close all connections."""
        await self._client.close()

    async def get(self, kind: Kind, namespace: str, name: str) -> Manifest | None:
        """See Api."""
        try:
            return await self._call("GET", _path(kind, namespace, name))
        except ApiError as error:
            if error.status == 404:
                return None
            raise

    async def list(
        self, kind: Kind, namespace: str, labels: str = "", fields: str = ""
    ) -> Manifests:
        """See Api. Read in chunks; from the beginning where the list expires meanwhile."""
        try:
            return await self._list(kind, namespace, labels, fields, _CHUNK)
        except ApiError as error:
            if error.status != 410:
                raise
            return await self._list(kind, namespace, labels, fields, 0)

    async def _list(
        self, kind: Kind, namespace: str, labels: str, fields: str, limit: int
    ) -> Manifests:
        query = [("labelSelector", labels), ("fieldSelector", fields)]
        query = [(name, value) for name, value in query if value]
        if limit:
            query.append(("limit", str(limit)))
        found: Manifests = []
        token = ""
        while True:
            more = [("continue", token)] if token else []
            page = await self._call("GET", _path(kind, namespace), query=[*query, *more])
            # The items of a list do not say what they are.
            found += [
                {**item, "apiVersion": kind.api_version, "kind": kind.name}
                for item in page.get("items") or ()
            ]
            token = page.get("metadata", {}).get("continue", "")
            if not token:
                return found

    async def apply(self, manifest: Manifest) -> Manifest:
        """See Api."""
        return await self._apply(manifest, "")

    async def apply_status(self, manifest: Manifest) -> Manifest:
        """See Api."""
        return await self._apply(manifest, "/status")

    async def _apply(self, manifest: Manifest, subresource: str) -> Manifest:
        return await self._call(
            "PATCH",
            _path_of(manifest) + subresource,
            query=[("fieldManager", FIELD_MANAGER), ("force", "true")],
            body=manifest,
            content="application/apply-patch+yaml",
        )

    async def create(self, manifest: Manifest) -> Manifest:
        """See Api."""
        kind, namespace = kind_of(manifest), manifest["metadata"]["namespace"]
        query = [("fieldManager", FIELD_MANAGER)]
        return await self._call("POST", _path(kind, namespace), query=query, body=manifest)

    async def replace(self, manifest: Manifest) -> Manifest:
        """See Api."""
        query = [("fieldManager", FIELD_MANAGER)]
        return await self._call("PUT", _path_of(manifest), query=query, body=manifest)

    async def delete(
        self, kind: Kind, namespace: str, name: str, uid: str, resource_version: str
    ) -> None:
        """See Api."""
        preconditions = {"uid": uid, "resourceVersion": resource_version}
        body = {
            "apiVersion": "v1",
            "kind": "DeleteOptions",
            "propagationPolicy": "Background",
            "preconditions": {key: value for key, value in preconditions.items() if value},
        }
        try:
            await self._call("DELETE", _path(kind, namespace, name), body=body)
        except ApiError as error:
            if error.status != 404:
                raise

    async def _call(
        self,
        method: str,
        path: str,
        query: Iterable[tuple[str, str]] = (),
        body: Manifest | None = None,
        content: str = "application/json",
    ) -> Manifest:
        headers = {"Accept": "application/json", "Content-Type": content}
        request = await self._client.param_serialize(
            method,
            path,
            query_params=list(query),
            header_params=headers,
            body=body,
            auth_settings=["BearerToken"],
        )
        try:
            response = await self._client.call_api(*request, _request_timeout=self._timeout)
            data = await response.read()
        except (aiohttp.ClientError, TimeoutError, OSError) as error:
            text = str(error) or type(error).__name__
            raise ApiError(0, "Unreachable", f"the API server did not answer: {text}") from error
        if 200 <= response.status < 300:
            result: Manifest = json.loads(data) if data else {}
            return result
        raise _error(response.status, data, response.headers)


def _error(status: int, data: bytes, headers: Mapping[str, str]) -> ApiError:
    try:
        answer = json.loads(data)
        reason, message = answer.get("reason", ""), answer.get("message", "")
    except (ValueError, AttributeError):
        reason, message = "", data[:300].decode(errors="replace").strip()
    after = headers.get("Retry-After", "")
    return ApiError(
        status,
        reason,
        message or f"HTTP status {status}",
        float(after) if after.isdigit() else None,
    )


def _path(kind: Kind, namespace: str, name: str = "") -> str:
    scope = f"/namespaces/{namespace}" if namespace else ""
    return f"{kind.root}{scope}/{kind.plural}" + (f"/{name}" if name else "")


def _path_of(manifest: Manifest) -> str:
    metadata = manifest["metadata"]
    return _path(kind_of(manifest), metadata["namespace"], metadata["name"])


async def configuration() -> Any:
    """Where the API server is and who we are: in a pod its ServiceAccount, else the kubeconfig.

    The token of a ServiceAccount is read again every minute. ApiError where there is neither.
    """
    result = client.Configuration()
    try:
        if "KUBERNETES_SERVICE_HOST" in os.environ:
            _config.load_incluster_config(client_configuration=result)
        else:
            await _config.load_kube_config(client_configuration=result, persist_config=False)
    except (config.ConfigException, OSError) as error:
        raise ApiError(0, "NoConfiguration", f"no access to a cluster: {error}") from error
    return result
