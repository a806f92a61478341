"""What the proxy serves: an allowlist of vLLM's paths. Everything else is 404."""

import re
from typing import Any, Final

import orjson

from pd_proxy.errors import ProxyError

COMPLETIONS: Final = b"/v1/completions"
CHAT: Final = b"/v1/chat/completions"

_INFERENCE: Final = (
    COMPLETIONS,
    CHAT,
    b"/v1/chat/completions/batch",
    b"/v1/responses",
    b"/v1/messages",
    b"/v1/embeddings",
    b"/generative_scoring",
    b"/v1/audio/transcriptions",
    b"/v1/audio/translations",
    b"/v1/score",
    b"/score",
    b"/v1/rerank",
    b"/v2/rerank",
    b"/rerank",
    b"/pooling",
    b"/classify",
)
_AUXILIARY_POST: Final = (b"/tokenize", b"/detokenize", b"/v1/messages/count_tokens")
_AUXILIARY_GET: Final = (b"/v1/models", b"/version", b"/health", b"/ping")

INFERENCE: Final = frozenset(_INFERENCE)
"""Paths whose requests are load: they are counted and measured."""

MESSAGES: Final = b"/v1/messages"
RESPONSES: Final = b"/v1/responses"

GENERATING: Final = frozenset((b"/v1/chat/completions/batch", RESPONSES, MESSAGES))
"""Paths beside completions that write an answer to a prompt: a decoder alone does both."""

SALTED: Final = frozenset(
    (
        *GENERATING,
        b"/generative_scoring",
        b"/v1/embeddings",
        b"/v1/score",
        b"/score",
        b"/v1/rerank",
        b"/v2/rerank",
        b"/rerank",
        b"/pooling",
        b"/classify",
    )
)
"""Paths beside completions whose bodies may have vLLM's `cache_salt`."""

METHODS: Final[dict[bytes, frozenset[bytes]]] = {
    **dict.fromkeys((*_INFERENCE, *_AUXILIARY_POST), frozenset((b"POST", b"OPTIONS"))),
    **dict.fromkeys(_AUXILIARY_GET, frozenset((b"GET", b"OPTIONS"))),
}
"""Allowed methods by path; OPTIONS is a browser's question before it sends."""

_GET: Final = METHODS[b"/v1/models"]
_MODEL: Final = re.compile(rb"/v1/models/[A-Za-z0-9._~%:@+/-]{1,512}")
"""One model's card; its id may have slashes."""
_UPWARDS: Final = re.compile(rb"(/|%2f)(\.|%2e){0,2}(/|%2f|$)", re.I)
"""What a server might read as another path."""


def methods(path: bytes) -> frozenset[bytes] | None:
    """The methods that a path is served with; None where it is not served."""
    found = METHODS.get(path)
    if found is None and _MODEL.fullmatch(path) and not _UPWARDS.search(path):
        return _GET
    return found


def error_events(path: bytes, error: ProxyError) -> bytes:
    """How a stream ends that has begun and cannot be ended well.

    As vLLM does it: completions end with their usual last event, Anthropic's messages and OpenAI's
    responses with an event of type `error`.
    """
    value: dict[str, Any] = error.value()
    if path == MESSAGES:
        inner = {"type": "api_error", "message": error.message}
        return b"event: error\ndata: %b\n\n" % orjson.dumps({"type": "error", "error": inner})
    if path == RESPONSES:
        more = {"type": "error", "code": str(error.status), "message": error.message, "param": None}
        return b"event: error\ndata: %b\n\n" % orjson.dumps({**more, **value})
    return b"data: %b\n\ndata: [DONE]\n\n" % orjson.dumps(value)
