"""A client's request, complete."""

from dataclasses import dataclass

from pd_proxy.http.headers import Headers


@dataclass(slots=True)
class Request:
    """As it came; `path` is the target without its query."""

    method: bytes
    target: bytes
    path: bytes
    headers: Headers
    body: bytes
    keep_alive: bool
    chunked_ok: bool
    """Whether the client understands chunks (HTTP/1.1)."""
    tenant: str = ""
    """Whose it is, by its API key; empty where none is asked for."""
