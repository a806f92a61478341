"""What the data plane asks of a connector's protocol."""

from dataclasses import dataclass
from typing import Protocol

from pd_proxy.backends import Backend
from pd_proxy.body import Completion


@dataclass(frozen=True, slots=True)
class Bodies:
    """What a pair is sent for one attempt."""

    prefill: bytes
    prefill_headers: bytes
    decode: bytes


class KvProtocol(Protocol):
    """One connector. The next one is one file beside mooncake.py."""

    def obstacle(self, body: Completion) -> str | None:
        """Why only a decoder alone can answer this request; None where a pair can."""

    async def ready(self, prefiller: Backend) -> bool:
        """Whether the prefiller can be used, once what must be known of it is known."""

    def bodies(self, body: Completion, prefiller: Backend) -> Bodies:
        """A new attempt's bodies; `ready` was true."""

    def flaw(self, answer: bytes) -> str | None:
        """Why a prefiller's 200 does not serve the decoder; None where it does."""
