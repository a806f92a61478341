"""The API server in memory over HTTP: discovery, GET, LIST in chunks, WATCH and writes."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

from aiohttp import web

from pd_operator import kinds
from pd_operator.errors import ApiError
from pd_operator.kinds import Kind
from tests.faults.server import Manifest, Server

KINDS = (*kinds.CHILDREN, kinds.PD_DEPLOYMENT, kinds.POD, kinds.EVENT, kinds.LEASE)


class HttpServer:
    """Serves a `Server`; `requests` are (method, path, query) of all requests."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.requests: list[tuple[str, str, dict[str, str]]] = []
        self.watching: set[str] = set()
        """Plurals of the kinds that are watched now."""
        self.fail: dict[tuple[str, str], list[web.Response]] = {}
        """Answers to give first, by method and path."""
        self.tokens: list[str] = []
        """Authorization headers."""
        self._streams: dict[str, list[asyncio.Queue[tuple[str, Manifest]]]] = {}
        self._changed = asyncio.Condition()
        server.listeners.append(self._tell)

    @contextlib.asynccontextmanager
    async def serve(self) -> AsyncIterator[str]:
        """The URL under which it serves."""
        application = web.Application(client_max_size=2**24)
        application.router.add_route("*", "/{tail:.*}", self._handle)
        # A watch that its client gave up must end, or kopf waits for it at its own end.
        runner = web.AppRunner(application, shutdown_timeout=0.1, handler_cancellation=True)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        try:
            yield f"http://127.0.0.1:{runner.addresses[0][1]}"
        finally:
            await runner.cleanup()

    async def watched(self, plurals: set[str]) -> None:
        """Wait until all these kinds are watched."""
        async with self._changed:
            await self._changed.wait_for(lambda: plurals <= self.watching)

    async def asked(self, path: str) -> None:
        """Wait until there was a request for a path."""
        async with self._changed:
            await self._changed.wait_for(lambda: path in {asked for _, asked, _ in self.requests})

    def writes(self) -> list[tuple[str, str]]:
        """Method and path of all requests that write."""
        return [(method, path) for method, path, _ in self.requests if method != "GET"]

    async def _handle(self, request: web.Request) -> web.StreamResponse:
        self.requests.append((request.method, request.path, dict(request.query)))
        self.tokens.append(request.headers.get("Authorization", ""))
        async with self._changed:
            self._changed.notify_all()
        answers = self.fail.get((request.method, request.path))
        if answers:
            return answers.pop(0)
        found = _discovery(request.path)
        if found is not None:
            return web.json_response(found)
        try:
            return await self._object(request)
        except ApiError as error:
            body = {"kind": "Status", "reason": error.reason, "message": error.message}
            return web.json_response(body, status=error.status)

    async def _object(self, request: web.Request) -> web.StreamResponse:
        kind, namespace, name, subresource = _parse(request.path)
        body = json.loads(await request.text() or "{}")
        if request.method == "PATCH":
            assert request.headers["Content-Type"] == "application/apply-patch+yaml"
            assert request.query["fieldManager"] == "pd-operator"
            assert request.query["force"] == "true"
            apply = self.server.apply_status if subresource else self.server.apply
            return web.json_response(await apply(body))
        if request.method == "POST":
            return web.json_response(await self.server.create(body), status=201)
        if request.method == "PUT":
            return web.json_response(await self.server.replace(body))
        if request.method == "DELETE":
            wanted = body.get("preconditions", {})
            await self.server.delete(
                kind, namespace, name, wanted.get("uid", ""), wanted.get("resourceVersion", "")
            )
            return web.json_response({"kind": "Status", "status": "Success"})
        if name:
            found = await self.server.get(kind, namespace, name)
            if found is None:
                raise ApiError(404, "NotFound", f"{kind.plural} {name!r} not found")
            return web.json_response(found)
        if "watch" in request.query:
            return await self._watch(request, kind)
        return web.json_response(await self._list(request, kind, namespace))

    async def _list(self, request: web.Request, kind: Kind, namespace: str) -> Manifest:
        found = await self._selected(request, kind, namespace)
        begin = int(request.query.get("continue", "0"))
        end = begin + int(request.query.get("limit", len(found) or 1))
        # The items of a real list have neither kind nor apiVersion.
        items = [
            {k: v for k, v in item.items() if k not in ("kind", "apiVersion")}
            for item in found[begin:end]
        ]
        metadata: dict[str, Any] = {"resourceVersion": str(self.server.version)}
        if end < len(found):
            metadata["continue"] = str(end)
        return {
            "kind": f"{kind.name}List",
            "apiVersion": kind.api_version,
            "metadata": metadata,
            "items": items,
        }

    async def _selected(self, request: web.Request, kind: Kind, namespace: str) -> list[Manifest]:
        selector = request.query.get("labelSelector", "")
        if "=" in selector:
            return await self.server.list(kind, namespace, selector)
        found = await self.server.list(kind, namespace)
        return [m for m in found if not selector or selector in m["metadata"].get("labels", {})]

    async def _watch(self, request: web.Request, kind: Kind) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        stream: asyncio.Queue[tuple[str, Manifest]] = asyncio.Queue()
        self._streams.setdefault(kind.name, []).append(stream)
        self.watching.add(kind.plural)
        async with self._changed:
            self._changed.notify_all()
        selector = request.query.get("labelSelector", "")
        try:
            while True:
                event, manifest = await stream.get()
                if not selector or selector in manifest["metadata"].get("labels", {}):
                    line = json.dumps({"type": event, "object": manifest})
                    await response.write(line.encode() + b"\n")
        finally:
            self._streams[kind.name].remove(stream)

    def _tell(self, event: str, manifest: Manifest) -> None:
        for stream in self._streams.get(manifest["kind"], ()):
            stream.put_nowait((event, manifest))


def _parse(path: str) -> tuple[Kind, str, str, str]:
    for kind in KINDS:
        if path.startswith(f"{kind.root}/"):
            parts = path.removeprefix(f"{kind.root}/").split("/")
            namespace = parts[1] if parts[0] == "namespaces" else ""
            rest = parts[2:] if namespace else parts
            if rest[0] == kind.plural:
                return kind, namespace, "/".join(rest[1:2]), "/".join(rest[2:])
    raise ApiError(404, "NotFound", f"no such path: {path}")


def _discovery(path: str) -> Manifest | None:
    if path == "/api":
        return {"versions": ["v1"]}
    groups = sorted({(kind.group, kind.version) for kind in KINDS if kind.group})
    if path == "/apis":
        versions = [
            {
                "name": group,
                "versions": [{"version": version, "groupVersion": f"{group}/{version}"}],
                "preferredVersion": {"version": version},
            }
            for group, version in groups
        ]
        return {"groups": versions}
    found = [kind for kind in KINDS if kind.root == path]
    if not found:
        return None
    resources: list[Manifest] = [
        {
            "name": kind.plural,
            "kind": kind.name,
            "namespaced": True,
            "singularName": "",
            "verbs": ["create", "delete", "get", "list", "patch", "update", "watch"],
        }
        for kind in found
    ]
    if path == "/api/v1":
        # kopf serves nothing where there are no namespaces.
        resources.append({**resources[0], "name": "namespaces", "kind": "Namespace"})
        resources[-1]["namespaced"] = False
    return {"groupVersion": found[0].api_version, "resources": resources}
