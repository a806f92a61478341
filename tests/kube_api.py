"""The API server asked without a process of kubectl for each question, which costs 0.2 s of CPU.

Tests poll; three at a time would keep a core busy with kubectl alone. Only client certificates
are known here: of a kubeconfig with anything else, `connect` returns None, and kubectl asks.
"""

import base64
import functools
import http.client
import json
import ssl
import tempfile
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit

import yaml

Object = dict[str, Any]
_DISCOVERY = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
_TIMEOUT = 60.0
_RETRIES = 10
"""Times that a request is sent again where the API server asks for patience, as kubectl does."""


@dataclass(frozen=True)
class Answer:
    """What the API server said; `text` is its message where it refused."""

    status: int
    text: str


@dataclass(frozen=True)
class Resource:
    """A kind of object: where it is and what its objects are called."""

    root: str
    """`/api/v1` or `/apis/<group>/<version>`."""
    plural: str
    kind: str
    namespaced: bool

    @property
    def api_version(self) -> str:
        """As its objects say it."""
        return self.root.removeprefix("/apis/").removeprefix("/api/")

    def path(self, namespace: str, name: str = "", selector: str = "") -> str:
        """Of one object, or of all that the selector matches."""
        where = f"/namespaces/{namespace}" if self.namespaced else ""
        tail = f"/{name}" if name else ""
        query = f"?labelSelector={quote(selector)}" if selector else ""
        return f"{self.root}{where}/{self.plural}{tail}{query}"


class Api:
    """Connections that are kept open, and opened anew where they broke."""

    def __init__(self, server: str, context: ssl.SSLContext | None, pause: float = 1.0) -> None:
        url = urlsplit(server)
        self._host, self._port = url.hostname or "", url.port or (443 if context else 80)
        self._context = context
        self._pause = pause
        self._idle: deque[http.client.HTTPConnection] = deque()
        self._resources: dict[str, Resource] = {}

    def ask(self, method: str, path: str, body: Object | None = None, **headers: str) -> Answer:
        """One request; OSError or HTTPException where there is no answer."""
        data = None if body is None else json.dumps(body)
        if body is not None:
            headers["Content-Type"] = "application/json"
        for _ in range(_RETRIES):
            answer = self._kept(method, path, data, headers)
            if answer.status != http.HTTPStatus.TOO_MANY_REQUESTS:
                break
            time.sleep(self._pause)
        return answer

    def _kept(self, method: str, path: str, body: str | None, headers: dict[str, str]) -> Answer:
        try:
            return self._once(method, path, body, headers)
        except (http.client.RemoteDisconnected, ConnectionError, ssl.SSLError):
            # An idle connection that the server has closed.
            return self._once(method, path, body, headers)

    def _once(self, method: str, path: str, body: str | None, headers: dict[str, str]) -> Answer:
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = self._connection()
        try:
            connection.request(method, path, body, headers)
            response = connection.getresponse()
            text = response.read().decode()
        except BaseException:
            connection.close()
            raise
        self._idle.append(connection)
        return Answer(response.status, text)

    def close(self) -> None:
        """Give the connections back."""
        while self._idle:
            self._idle.pop().close()

    def _connection(self) -> http.client.HTTPConnection:
        if self._context is None:
            return http.client.HTTPConnection(self._host, self._port, timeout=_TIMEOUT)
        return http.client.HTTPSConnection(
            self._host, self._port, timeout=_TIMEOUT, context=self._context
        )

    def resource(self, name: str) -> Resource:
        """The kind that kubectl knows by a name: plural, singular, short, in any case; KeyError."""
        key = name.lower()
        if key not in self._resources:
            self._resources = self._discover()
        return self._resources[key]

    def _discover(self) -> dict[str, Resource]:
        found: dict[str, Resource] = {}
        for root in ("/api", "/apis"):
            answer = self.ask("GET", root, Accept=_DISCOVERY)
            for group in json.loads(answer.text)["items"]:
                name = group["metadata"].get("name", "")
                version = group["versions"][0]
                place = "/".join(part for part in (root, name, version["version"]) if part)
                for item in version.get("resources", []):
                    resource = Resource(
                        place,
                        item["resource"],
                        item["responseKind"]["kind"],
                        item["scope"] == "Namespaced",
                    )
                    names = (
                        item["resource"],
                        item.get("singularResource", ""),
                        *item.get("shortNames", []),
                    )
                    # Groups come in the order of their rank, as kubectl takes them.
                    for key in filter(None, names):
                        found.setdefault(key, resource)
        return found


def connect(kubeconfig: Path) -> Api | None:
    """The API server of a kubeconfig's current context; None where only kubectl can."""
    return _connect(kubeconfig, kubeconfig.stat().st_mtime_ns)


@functools.cache
def _connect(kubeconfig: Path, written: int) -> Api | None:
    """`written` tells one cluster's file from that of the next at the same place."""
    del written
    config = yaml.safe_load(kubeconfig.read_text(encoding="utf-8"))
    current = _named(config["contexts"], config["current-context"])["context"]
    cluster = _named(config["clusters"], current["cluster"])["cluster"]
    user = _named(config["users"], current["user"])["user"]
    authority = cluster.get("certificate-authority-data")
    certificate = user.get("client-certificate-data")
    key = user.get("client-key-data")
    if not (authority and certificate and key):
        return None
    context = ssl.create_default_context(cadata=base64.b64decode(authority).decode())
    with tempfile.NamedTemporaryFile("wb") as both:
        both.write(base64.b64decode(certificate) + b"\n" + base64.b64decode(key))
        both.flush()
        context.load_cert_chain(both.name)
    return Api(cluster["server"], context)


def _named(items: list[Object], name: str) -> Object:
    return next(item for item in items if item["name"] == name)
