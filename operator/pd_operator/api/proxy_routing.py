"""`spec.proxy.routing`: how the proxy chooses pods."""

from typing import Annotated

from pydantic import Field

from pd_operator.api.base import ApiModel

HeaderName = Annotated[
    str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9][-A-Za-z0-9_]*$")
]
"""The name of an HTTP header."""


class RoutingSpec(ApiModel):
    """How the proxy chooses a prefiller and a decoder for a request."""

    prefix_aware: bool | None = None
    """Whether prompts that begin alike go to the same prefiller, which has their KV cache, as long
    as it has no more to do than the others. False: by load alone. Default: true.

    Becomes: `routing.prefixAware` of the proxy's configuration.
    """
    session_header: HeaderName | None = None
    """HTTP header that names a session: requests with the same value meet the same pods, as long
    as those have no more to do than the others. Default: X-Session-Id.

    Becomes: `routing.sessionHeader` of the proxy's configuration.
    """
