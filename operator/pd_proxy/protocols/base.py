"""What the data plane asks of a connector's protocol."""

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar, Final

import orjson

from pd_proxy.backends import Backend, Engine
from pd_proxy.body import Completion
from pd_proxy.http.fetch import fetch

NOT_HELD: Final = "prefill_not_held"
"""The prefiller answered, and keeps no KV for a decoder."""
_ALIVE: Final = (Engine(0, ""),)


@dataclass(frozen=True, slots=True)
class Bodies:
    """What a pair is sent for one attempt."""

    prefill: bytes
    prefill_headers: bytes
    decode: bytes | None
    """None where it takes the prefiller's answer to tell."""
    params: bytes | None = None
    """The decoder's `kv_transfer_params`, where it has any."""


class FlawError(Exception):
    """A prefiller's 200 does not serve the decoder; `str()` is the reason's name."""


class KvProtocol(ABC):
    """One kind of connector; the next one is one file beside mooncake.py.

    What stands here suits an engine that only its HTTP server tells of.
    """

    pairs: ClassVar[bool] = True
    """Whether a decoder needs a prefiller; else it is a whole engine."""
    together: ClassVar[bool] = False
    """Whether both are sent their bodies at once; else the decoder after the prefiller's answer."""
    recomputes: ClassVar[bool] = False
    """Whether a decoder that gets no KV is no loss of correctness or of anything pinned.

    Then a prefill that fails is not tried again: the decoder computes the prompt itself.
    """

    async def learn(self, prefiller: Backend, seconds: float) -> tuple[Engine, ...]:
        """What must be known before a prefiller is used; FetchError where it is not there."""
        await fetch(prefiller.pool, "/health", seconds)
        return _ALIVE

    @abstractmethod
    def obstacle(self, body: Completion) -> str | None:
        """Why only a decoder alone can answer this request; None where a pair can."""

    @abstractmethod
    def bodies(self, body: Completion, prefiller: Backend) -> Bodies:
        """A new attempt's bodies; what `learn` told is in `prefiller.engines`."""

    def flaw(self, answer: bytes) -> str | None:
        """Why a prefiller's 200 does not serve the decoder; None where it does."""
        return None

    def decode(self, body: Completion, answer: bytes) -> bytes:
        """The decoder's body after the prefiller's answer; FlawError where there is none."""
        return body.raw

    def held(self, bodies: Bodies, answer: bytes) -> bytes | None:
        """`kv_transfer_params` of what the prefiller holds for the decoder; None for nothing."""
        return bodies.params

    async def settle(  # noqa: B027 - most need not wait
        self, prefiller: Backend, tokens: int, seconds: float
    ) -> None:
        """Wait until the decoder can load a prompt of so many tokens, at most so many seconds."""

    def expected(self, tokens: int) -> int:
        """Of a prompt's tokens, those whose KV should come to the decoder."""
        return tokens


def one_token(body: Completion) -> dict[str, Any]:
    """The fields of a prefill: all of the client's, and an answer of exactly one token."""
    fields = {**body.fields, "stream": False, "max_tokens": 1, "min_tokens": 1, "n": 1}
    fields.pop("stream_options", None)
    if "max_completion_tokens" in fields:
        fields["max_completion_tokens"] = 1
    return fields


def prefill_body(body: Completion, params: dict[str, Any]) -> bytes:
    """A prefill that carries `kv_transfer_params`."""
    fields = one_token(body)
    fields["kv_transfer_params"] = params
    return orjson.dumps(fields)


def obstacle_to_transfer(body: Completion) -> str | None:
    """What cannot be answered where one prefill's KV goes to one sequence of a decoder."""
    fields = body.fields
    for key in ("n", "best_of"):
        if fields.get(key) not in (None, 1):
            return key
    if not body.chat and _several(fields.get("prompt")):
        return "prompt_list"
    return obstacle_to_split(body)


def obstacle_to_split(body: Completion) -> str | None:
    """What a decoder cannot answer unless it computes the prompt itself."""
    fields = body.fields
    if fields.get("use_beam_search"):
        return "beam_search"
    # The decoder has no hidden states of the prompt.
    if fields.get("prompt_logprobs") is not None:
        return "prompt_logprobs"
    if body.chat:
        return None
    if fields.get("echo") and fields.get("logprobs") is not None:
        return "echo_logprobs"
    return "prompt_embeds" if fields.get("prompt_embeds") is not None else None


def _several(prompt: Any) -> bool:
    """Whether a completion's prompt is a list of prompts; a list of numbers is one prompt."""
    return isinstance(prompt, list) and len(prompt) > 1 and not isinstance(prompt[0], int)
