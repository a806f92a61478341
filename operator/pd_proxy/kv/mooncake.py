"""vLLM's MooncakeConnector: the decoder fetches from a prefiller that it is told of at once."""

import asyncio
import secrets
from itertools import count
from typing import Any, Final

import orjson

from pd_proxy.backends import Backend
from pd_proxy.body import Completion
from pd_proxy.kv.protocol import Bodies

_NOT_HELD: Final = (
    b'"finish_reason":"stop"',
    b'"finish_reason":"abort"',
    b'"finish_reason":"error"',
)
"""A prefiller keeps KV for its decoder only where the answer ended by its length."""


class Mooncake:
    """Prefill and decode are dispatched together, joined by a transfer id of their own."""

    def __init__(self, bootstrap_seconds: float) -> None:
        self._seconds = bootstrap_seconds
        self._prefix = secrets.token_hex(8)
        self._numbers = count(1)

    def obstacle(self, body: Completion) -> str | None:
        """See KvProtocol. All choices of a request would share one transfer, so one it must be."""
        reason = _unshareable(body.fields)
        return reason if reason or body.chat else _unsplittable(body.fields)

    async def ready(self, prefiller: Backend) -> bool:
        """See KvProtocol: its engine ids must be known."""
        if prefiller.engines_known.is_set():
            return True
        try:
            async with asyncio.timeout(self._seconds):
                await prefiller.engines_known.wait()
        except TimeoutError:
            return False
        return True

    def bodies(self, body: Completion, prefiller: Backend) -> Bodies:
        """See KvProtocol."""
        number = next(self._numbers)
        engines = prefiller.engines
        engine = engines[number % len(engines)]
        # Never used again: a decoder given another request's id answers from the wrong KV.
        transfer = f"xfer-{self._prefix}-{number:x}"
        fields = {**body.fields, "stream": False, "max_tokens": 1, "min_tokens": 1, "n": 1}
        fields.pop("stream_options", None)
        if "max_completion_tokens" in fields:
            fields["max_completion_tokens"] = 1
        fields["kv_transfer_params"] = {
            "do_remote_decode": True,
            "do_remote_prefill": False,
            "transfer_id": transfer,
        }
        params = {
            "do_remote_decode": False,
            "do_remote_prefill": True,
            "remote_bootstrap_addr": prefiller.bootstrap_url,
            "remote_engine_id": engine.engine_id,
            "transfer_id": transfer,
        }
        return Bodies(
            prefill=orjson.dumps(fields),
            prefill_headers=(
                b"x-data-parallel-rank: %d\r\n" % engine.rank if len(engines) > 1 else b""
            ),
            decode=body.with_params(orjson.dumps(params)),
        )

    def flaw(self, answer: bytes) -> str | None:
        """See KvProtocol."""
        if any(reason in answer for reason in _NOT_HELD):
            return "prefill_not_held"
        return None


def _unshareable(fields: dict[str, Any]) -> str | None:
    for key in ("n", "best_of"):
        if fields.get(key) not in (None, 1):
            return key
    if fields.get("use_beam_search"):
        return "beam_search"
    # The decoder has no hidden states of the prompt.
    return "prompt_logprobs" if fields.get("prompt_logprobs") is not None else None


def _unsplittable(fields: dict[str, Any]) -> str | None:
    if fields.get("echo") and fields.get("logprobs") is not None:
        return "echo_logprobs"
    if fields.get("prompt_embeds") is not None:
        return "prompt_embeds"
    return "prompt_list" if _several(fields.get("prompt")) else None


def _several(prompt: Any) -> bool:
    """Whether a completion's prompt is a list of prompts; a list of numbers is one prompt."""
    return isinstance(prompt, list) and len(prompt) > 1 and not isinstance(prompt[0], int)
