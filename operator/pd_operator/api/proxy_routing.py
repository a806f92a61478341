"""`spec.proxy.routing`: how the proxy chooses pods."""

from typing import Annotated

from pydantic import Field

from pd_operator.api.base import ApiModel

HeaderName = Annotated[
    str, Field(min_length=1, max_length=64, pattern=r"^[A-Za-z0-9][-A-Za-z0-9_]*$")
]
"""The name of an HTTP header."""


class LocalPrefillSpec(ApiModel):
    """Prompts that a decoder computes itself, without a prefiller."""

    enabled: bool | None = None
    """Whether a decoder computes a prompt that is short, or mostly in its own cache, where that is
    sooner done than prefill and transfer, as the proxy measures them. Default: false, because the
    tokens of the requests that it decodes wait meanwhile.

    Becomes: `routing.localPrefill.enabled` of the proxy's configuration.
    """
    max_tokens: Annotated[int, Field(ge=1, le=1_000_000)] | None = None
    """Tokens of a prompt, without those in its cache, that a decoder computes itself at most.
    Default: 256.

    Becomes: `routing.localPrefill.maxTokens` of the proxy's configuration.
    """


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
    local_prefill: LocalPrefillSpec = LocalPrefillSpec()
    """When a decoder does without a prefiller."""
