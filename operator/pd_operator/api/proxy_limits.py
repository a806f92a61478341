"""`spec.proxy.limits`: what clients can take of one pod of the proxy."""

from typing import Annotated

from pydantic import Field

from pd_operator.api.base import ApiModel
from pd_operator.api.values import Quantity

Many = Annotated[int, Field(ge=1, le=65536)]


class ProxyLimits(ApiModel):
    """What clients can take of each pod of the proxy; what is beyond is refused at once."""

    body_size: Quantity = "32Mi"
    """A request's body, 1Ki to 64Mi; a larger one is answered 413. Default: 32Mi. Becomes:
    `limits.bodyBytes` of the proxy's file."""
    header_size: Quantity = "64Ki"
    """A request's first line and headers together, 1Ki to 1Mi; more is answered 431. Default:
    64Ki. Becomes: `limits.headerBytes`."""
    connections: Many = 4096
    """Open connections of clients; a further one is answered 503 and closed. Default: 4096.
    Becomes: `limits.connections`."""
    in_flight: Many = 1024
    """Requests that have no answer yet, those that wait included; a further one is answered 503.
    Default: 1024. Becomes: `limits.inFlight`."""
