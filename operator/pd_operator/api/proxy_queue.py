"""`spec.proxy.queue`: how many requests engines get at once, and who waits how long."""

from typing import Annotated, ClassVar, Final

from pydantic import Field

from pd_operator.api.base import ApiModel, Rule
from pd_operator.api.values import Duration

SHORTEST: Final = "10ms"
LONGEST: Final = "1h"

Requests = Annotated[int, Field(ge=1, le=65536)]


class ProxyQueue(ApiModel):
    """How many requests engines get at once. Others wait in each pod of the proxy: API keys (or
    else clients) in turn, each with the same share of prompt tokens; within one, first those with
    the header `x-request-priority: high`, last those with `low`."""

    size: Annotated[int, Field(ge=0, le=65536)] = 512
    """Requests that may wait. A further one is answered 429 with `Retry-After`, or takes the place
    of one of whoever has most in the queue. Default: 512. Becomes: `queue.size` of the proxy's
    file."""
    timeout: Duration = "30s"
    """How long a request waits, then it is answered 503 with `Retry-After`; from 10ms to 1h. Its
    header `x-request-timeout`, in seconds, can shorten that, and `timeouts.firstToken`. Default:
    30s. Becomes: `queue.timeout`."""
    requests_per_decoder: Requests = 512
    """Requests under way for each ready decoder. Default: 512. Becomes: `queue.perDecoder`."""
    requests_per_prefiller: Requests = 256
    """Of those, requests whose prompt is not read yet, for each ready prefiller; those that need
    no prefiller pass them by. Default: 256. Becomes: `queue.perPrefiller`."""

    cel: ClassVar[tuple[Rule, ...]] = (
        Rule(
            f"!has(self.timeout) || (duration(self.timeout) >= duration('{SHORTEST}')"
            f" && duration(self.timeout) <= duration('{LONGEST}'))",
            f"queue.timeout must be from {SHORTEST} to {LONGEST}",
        ),
    )
