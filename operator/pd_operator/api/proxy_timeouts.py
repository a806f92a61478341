"""`spec.proxy.timeouts`: the deadline of each phase of a request."""

from typing import ClassVar, Final

from pd_operator.api.base import ApiModel, Rule
from pd_operator.api.values import Duration

SHORTEST: Final = "10ms"
LONGEST: Final = "1h"


def _within(field: str) -> Rule:
    return Rule(
        f"!has(self.{field}) || (duration(self.{field}) >= duration('{SHORTEST}')"
        f" && duration(self.{field}) <= duration('{LONGEST}'))",
        f"timeouts.{field} must be from {SHORTEST} to {LONGEST}",
    )


class ProxyTimeouts(ApiModel):
    """How long each phase of a request may take. Where one is over before the answer's first byte,
    another pair is tried; after it, the stream ends with an error event. Each from 10ms to 1h."""

    connect: Duration = "2s"
    """To open a connection to an engine. Default: 2s. Becomes: `timeouts.connect` of the proxy's
    file."""
    bootstrap: Duration = "5s"
    """For a prefiller's bootstrap server, or its `/health`, to answer. Default: 5s. Becomes:
    `timeouts.bootstrap`."""
    prefill: Duration = "2m"
    """From the dispatch to the prefiller's answer. Default: 2m. Becomes: `timeouts.prefill`."""
    kv_wait: Duration = "1m"
    """From the prefiller's answer to the first byte of a stream: the decoder waits for the KV
    cache, and for its turn. Default: 1m. Becomes: `timeouts.kvWait`."""
    first_token: Duration = "150s"  # noqa: S105 - a time
    """From the arrival to the answer's first byte, over all attempts. An answer in one piece has
    longer: `betweenTokens` for each 100 tokens. Default: 150s. Becomes: `timeouts.firstToken`."""
    between_tokens: Duration = "1m"
    """Between two parts of a stream. Default: 1m. Becomes: `timeouts.betweenTokens`."""
    drain: Duration = "2m"
    """For requests in flight when a pod of the proxy ends; then they are cut. Default: 2m. Becomes:
    `timeouts.drain`, and `terminationGracePeriodSeconds`."""

    cel: ClassVar[tuple[Rule, ...]] = (
        _within("connect"),
        _within("bootstrap"),
        _within("prefill"),
        _within("kvWait"),
        _within("firstToken"),
        _within("betweenTokens"),
        _within("drain"),
    )
