"""Requests to the API server, without starting a program for each."""

import http.client
import json
import ssl
from dataclasses import dataclass
from typing import Any, Final

from tests.cluster.layout import ADDRESS, API_PORT, Layout

Manifest = dict[str, Any]
_UNREACHABLE: Final = (OSError, http.client.HTTPException)
_APPLY: Final = "application/apply-patch+yaml"


@dataclass(frozen=True)
class Answer:
    """Status code and decoded body; code 0 where there was no answer."""

    code: int
    body: Any


class Api:
    """The API server as the administrator sees it."""

    def __init__(self, layout: Layout) -> None:
        self._context = ssl.create_default_context(cafile=str(layout.pki / "ca.crt"))
        self._context.load_cert_chain(
            layout.pki / "admin-client.crt", layout.pki / "admin-client.key"
        )

    def request(
        self, method: str, path: str, body: object = None, kind: str = "application/json"
    ) -> Answer:
        """One request; a server that cannot be reached is the answer 0."""
        connection = http.client.HTTPSConnection(
            ADDRESS, API_PORT, timeout=10, context=self._context
        )
        try:
            text = None if body is None else json.dumps(body)
            connection.request(method, path, text, {"Content-Type": kind})
            response = connection.getresponse()
            content = response.read().decode()
        except _UNREACHABLE as error:
            return Answer(0, str(error))
        finally:
            connection.close()
        try:
            return Answer(response.status, json.loads(content))
        except ValueError:
            return Answer(response.status, content)

    def apply(self, path: str, manifest: Manifest) -> Answer:
        """Server-side apply of one object."""
        return self.request(
            "PATCH", f"{path}?fieldManager=cluster&force=true", manifest, kind=_APPLY
        )

    def ready(self) -> bool:
        """Whether the API server serves."""
        return self.request("GET", "/readyz").code == 200

    def node(self, name: str) -> Manifest | None:
        """A node; None where it has not registered."""
        answer = self.request("GET", f"/api/v1/nodes/{name}")
        return answer.body if answer.code == 200 else None


def is_ready(node: Manifest | None) -> bool:
    """Whether a node says that it is ready."""
    conditions = (node or {}).get("status", {}).get("conditions", [])
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)
