"""`spec.proxy`: the proxy in front of both tiers."""

from typing import Annotated

from pydantic import Field

from pd_operator.api.base import ApiModel, ImageReference
from pd_operator.api.proxy_access import ProxyApiKeys, ProxyTls
from pd_operator.api.proxy_limits import ProxyLimits
from pd_operator.api.proxy_queue import ProxyQueue
from pd_operator.api.proxy_routing import RoutingSpec
from pd_operator.api.proxy_timeouts import ProxyTimeouts


class ProxySpec(ApiModel):
    """The proxy in front of both tiers."""

    replicas: Annotated[int, Field(ge=1, le=100)] | None = None
    """Pods of the proxy. Default: 2. Becomes: `replicas` of its Deployment."""
    image: ImageReference | None = None
    """Image of the proxy. Default: the image that the operator was installed with.

    Becomes: the image of the container `proxy`.
    """
    timeouts: ProxyTimeouts = ProxyTimeouts()
    limits: ProxyLimits = ProxyLimits()
    queue: ProxyQueue = ProxyQueue()
    api_keys: ProxyApiKeys | None = None
    """Keys that clients need. Default: anybody is served, and `Authorization` is passed to the
    engines. Becomes: `apiKeys` of the proxy's file."""
    access_log: bool = False
    """Whether the proxy writes a line of JSON for each request: ids, tenant, path, status, outcome,
    times, tokens, the pods that answered; never a prompt, an answer or a key. Default: false.
    Becomes: `accessLog` of the proxy's file."""
    tls: ProxyTls | None = None
    """A certificate for the port of clients. Default: plain HTTP. Becomes: `tls` of the proxy's
    file."""
    routing: RoutingSpec = RoutingSpec()
    """How pods are chosen for a request."""
