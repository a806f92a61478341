"""The admin port: health, readiness and metrics, for the cluster's own eyes."""

import time
from collections.abc import Callable
from typing import Final

from pd_proxy.backends import Backends
from pd_proxy.errors import ProxyError
from pd_proxy.http.call import Call
from pd_proxy.metrics import CONTENT_TYPE, Metrics
from pd_proxy.report import families

_TEXT: Final = b"content-type: text/plain; charset=utf-8\r\n"


class Admin:
    """Handles the admin port's calls; `not_ready` says why traffic should not come, or None."""

    def __init__(
        self, metrics: Metrics, backends: Backends, not_ready: Callable[[], str | None]
    ) -> None:
        self._metrics = metrics
        self._backends = backends
        self._not_ready = not_ready

    def handle(self, call: Call) -> None:
        """See Server."""
        request = call.request
        if request.method not in (b"GET", b"HEAD"):
            call.respond_error(ProxyError(405, "only GET is served here", b"allow: GET, HEAD\r\n"))
        elif request.path == b"/healthz":
            call.respond(200, _TEXT, b"ok\n")
        elif request.path == b"/readyz":
            reason = self._not_ready()
            call.respond(503 if reason else 200, _TEXT, f"{reason or 'ok'}\n".encode())
        elif request.path == b"/metrics":
            more = families(self._backends, time.monotonic())
            call.respond(200, CONTENT_TYPE, self._metrics.text(more))
        else:
            call.respond_error(ProxyError(404, "there is no such path here"))
