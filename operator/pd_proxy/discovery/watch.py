"""Backends from the API server: a list of this deployment's pods, then a watch.

While the API server is away the table stays as it was last known.
"""

import asyncio
import os
import random
from collections.abc import AsyncIterator
from typing import Any, Final, Protocol

import aiohttp
import orjson
from kubernetes.aio import client, config

from pd_proxy.backends import Backends, Pod
from pd_proxy.config import Config, ConfigError
from pd_proxy.discovery.pods import read_pod
from pd_proxy.log import log
from pd_shared import labels

WATCH_SECONDS: Final = 300
"""After so long the API server ends a watch, and the next one begins."""
INACTIVE_SECONDS: Final = 100.0
"""A watch that brings not even a bookmark (one a minute) is dead."""
_LIST_SECONDS: Final = 15.0
_CONNECT_SECONDS: Final = 5.0
_PAGE: Final = 500
_FIRST_PAUSE: Final = 0.2
_LONGEST_PAUSE: Final = 10.0
Query = list[tuple[str, str]]
_config: Final[Any] = config  # its loaders have no types


class ExpiredError(Exception):
    """The resource version is too old: list again."""


class UnreachableError(Exception):
    """The API server did not do what it was asked; `str()` says why in one line."""


class PodApi(Protocol):
    """What is asked of the API server."""

    async def list(self) -> tuple[list[dict[str, Any]], str]:
        """All pods, and the resource version to watch from."""

    def watch(self, version: str) -> AsyncIterator[dict[str, Any]]:
        """Events since the version; ends when the API server ends the watch."""


class KubernetesPods:
    """The pods of one deployment, over the official client."""

    def __init__(self, configuration: Any, settings: Config) -> None:
        # Any: the generated client is only half typed.
        self._client: Any = client.ApiClient(configuration)
        self._path = f"/api/v1/namespaces/{settings.namespace}/pods"
        self._selector = (
            f"{labels.DEPLOYMENT}={settings.deployment},"
            f"{labels.COMPONENT} in ({labels.PREFILLER},{labels.DECODER})"
        )

    async def close(self) -> None:
        """Close all connections."""
        await self._client.close()

    async def list(self) -> tuple[list[dict[str, Any]], str]:
        """See PodApi."""
        items: list[dict[str, Any]] = []
        token = ""
        while True:
            query = [("limit", str(_PAGE))] + ([("continue", token)] if token else [])
            limits = aiohttp.ClientTimeout(total=_LIST_SECONDS, connect=_CONNECT_SECONDS)
            response = await self._get(query, limits)
            page = orjson.loads(await response.read())
            items += page.get("items") or []
            metadata = page.get("metadata") or {}
            token = metadata.get("continue", "")
            if not token:
                return items, metadata.get("resourceVersion", "")

    async def watch(self, version: str) -> AsyncIterator[dict[str, Any]]:
        """See PodApi."""
        query = [
            ("watch", "true"),
            ("allowWatchBookmarks", "true"),
            ("resourceVersion", version),
            ("timeoutSeconds", str(WATCH_SECONDS)),
        ]
        limits = aiohttp.ClientTimeout(
            total=None, sock_connect=_CONNECT_SECONDS, sock_read=INACTIVE_SECONDS
        )
        response = (await self._get(query, limits)).response
        try:
            rest = b""
            async for part in response.content.iter_any():
                *lines, rest = (rest + part).split(b"\n")
                for line in lines:
                    if line.strip():
                        yield orjson.loads(line)
        finally:
            response.close()

    async def _get(self, query: Query, limits: aiohttp.ClientTimeout) -> Any:
        request = await self._client.param_serialize(
            "GET",
            self._path,
            query_params=[("labelSelector", self._selector), *query],
            header_params={"Accept": "application/json"},
            auth_settings=["BearerToken"],
        )
        response = await self._client.call_api(*request, _request_timeout=limits)
        if response.status == 410:
            response.response.close()
            raise ExpiredError
        if response.status != 200:
            response.response.close()
            raise UnreachableError(f"the API server answered {response.status}")
        return response


async def connect(settings: Config) -> KubernetesPods:
    """The API server of this pod, or of KUBECONFIG; ConfigError where there is neither."""
    result = client.Configuration()
    try:
        if "KUBERNETES_SERVICE_HOST" in os.environ:
            _config.load_incluster_config(client_configuration=result)
        elif "KUBECONFIG" in os.environ:
            await _config.load_kube_config(client_configuration=result, persist_config=False)
        else:
            raise ConfigError("there is no cluster around; give KUBECONFIG, or --backends FILE")
    except (config.ConfigException, OSError) as error:
        raise ConfigError(f"no access to the cluster: {error}") from error
    return KubernetesPods(result, settings)


class Follower:
    """Keeps the table as the API server tells."""

    def __init__(self, api: PodApi, settings: Config, backends: Backends) -> None:
        self._api = api
        self._settings = settings
        self._backends = backends
        self._pods: dict[str, Pod] = {}
        self._version = ""

    async def run(self) -> None:
        """Follow until cancelled."""
        pause = _FIRST_PAUSE
        while True:
            try:
                if not self._version:
                    await self._relist()
                await self._follow()
                pause = _FIRST_PAUSE
                await asyncio.sleep(_FIRST_PAUSE)
            except ExpiredError:
                self._version = ""
            except (UnreachableError, aiohttp.ClientError, OSError, TimeoutError, ValueError) as e:
                log("warning", "watch broken", error=str(e) or type(e).__name__)
                self._version = ""
                await asyncio.sleep(pause * (0.5 + random.random() / 2))  # noqa: S311 - jitter
                pause = min(_LONGEST_PAUSE, pause * 2)

    async def _relist(self) -> None:
        items, version = await self._api.list()
        self._pods = {}
        for item in items:
            self._take(item)
        self._version = version
        self._backends.update(self._pods.values())

    async def _follow(self) -> None:
        async for event in self._api.watch(self._version):
            kind, item = event.get("type"), event.get("object") or {}
            if kind == "ERROR":
                if item.get("code") == 410:
                    raise ExpiredError
                raise UnreachableError(str(item.get("message", "the watch failed")))
            metadata = item.get("metadata") or {}
            self._version = metadata.get("resourceVersion") or self._version
            if kind == "BOOKMARK":
                continue
            before = dict(self._pods)
            if kind == "DELETED":
                self._pods.pop(str(metadata.get("uid")), None)
            else:
                self._take(item)
            if self._pods != before:
                self._backends.update(self._pods.values())

    def _take(self, item: dict[str, Any]) -> None:
        uid = str((item.get("metadata") or {}).get("uid"))
        pod = read_pod(item, self._settings)
        if pod is None:
            self._pods.pop(uid, None)
        else:
            self._pods[uid] = pod
