"""One streamed chat completion, and what it tells of the service."""

import http.client
import json
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from tools.stages import UserError

_PROMPT: Final = (
    "{nonce}: A prefiller reads the whole prompt at once and fills the KV cache. "
    "A decoder takes that cache over and writes one token after another. "
    "Tell in a few words why the two are better apart."
)
"""The nonce comes first, so that no earlier request's KV cache fits."""


@dataclass(frozen=True)
class Answer:
    """What one request was and took; seconds."""

    ttft: float
    tpot: float | None
    """None where the answer had one token only."""
    prompt_tokens: int
    completion_tokens: int
    prefiller: str
    decoder: str


def ask(port: int, model: str, show: Callable[[str], None]) -> Answer:
    """Ask the service on a local port; `show` gets the answer's text as it comes."""
    body = {
        "model": model,
        "stream": True,
        "stream_options": {"include_usage": True},
        "max_tokens": 40,
        "temperature": 0,
        "messages": [{"role": "user", "content": _PROMPT.format(nonce=secrets.token_hex(4))}],
    }
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        start = time.monotonic()
        connection.request(
            *("POST", "/v1/chat/completions", json.dumps(body)),
            {"Content-Type": "application/json"},
        )
        response = connection.getresponse()
        if response.status != 200:
            text = response.read(2000).decode(errors="replace")
            raise UserError(f"the service answered {response.status}: {text}")
        return _read(response, start, show)
    except (OSError, http.client.HTTPException) as error:
        raise UserError(f"the service did not answer: {error!r}") from error
    finally:
        connection.close()


def _read(response: http.client.HTTPResponse, start: float, show: Callable[[str], None]) -> Answer:
    first = last = 0.0
    usage: dict[str, Any] = {}
    for line in response:
        if not line.startswith(b"data: ") or line.strip() == b"data: [DONE]":
            continue
        event = json.loads(line[6:])
        if "error" in event:
            raise UserError(f"the stream ended with an error: {event['error']}")
        text = "".join(choice["delta"].get("content") or "" for choice in event["choices"])
        if text:
            last = time.monotonic()
            first = first or last
            show(text)
        usage = event.get("usage") or usage
    if not usage or not first:
        raise UserError("the stream ended without a token; look at the pods' logs")
    tokens = usage["completion_tokens"]
    return Answer(
        ttft=first - start,
        tpot=(last - first) / (tokens - 1) if tokens > 1 else None,
        prompt_tokens=usage["prompt_tokens"],
        completion_tokens=tokens,
        prefiller=response.headers.get("x-pd-prefiller", "none"),
        decoder=response.headers.get("x-pd-decoder", "none"),
    )
