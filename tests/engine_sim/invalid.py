"""What vLLM refuses before its engine sees a request, in vLLM's words and shapes."""

import json
from typing import Any

from tests.engine_sim import answers
from tests.engine_sim.shapes import error


class RefusedError(Exception):
    """A request that is answered with an error."""

    def __init__(
        self, status: int, message: str, kind: str | None = None, param: str | None = None
    ) -> None:
        super().__init__(message)
        self.status = status
        self.body = error(status, message, kind, param)


def _malformed(message: str, param: str | None) -> RefusedError:
    """What FastAPI's own validation says, under vLLM's type for it."""
    return RefusedError(400, f"1 validation error:\n  {message}", "Bad Request", param)


def read(raw: bytes, media_type: str) -> dict[str, Any]:
    """The body's fields."""
    if media_type.lower().partition(";")[0] != "application/json":
        only = "Unsupported Media Type: Only 'application/json' is allowed"
        raise _malformed(only, None)
    try:
        value = json.loads(raw)
    except UnicodeDecodeError:
        raise RefusedError(400, "There was an error parsing the body", "Bad Request") from None
    except ValueError as wrong:
        position = getattr(wrong, "pos", 0)
        raise _malformed(f"JSON decode error: {wrong}", f"body.{position}") from None
    if not isinstance(value, dict):
        raise _malformed("Input should be a valid dictionary", "body")
    return value


def check(body: dict[str, Any], chat: bool, served: tuple[str, ...]) -> None:
    """Refuse a completion's fields."""
    if chat and not isinstance(body.get("messages"), list):
        raise _malformed("Field required: messages", "body.messages")
    for name in ("max_tokens", "max_completion_tokens", "n"):
        value = body.get(name)
        if value is not None and (isinstance(value, bool) or not isinstance(value, int)):
            raise _malformed(f"Input should be a valid integer: {name}", f"body.{name}")
    if body.get("stream_options") and not body.get("stream"):
        message = "Stream options can only be defined when `stream=True`."
        raise RefusedError(400, f"{message} (parameter=stream_options)", param="stream_options")
    if not chat and body.get("prompt") in (None, "", []):
        message = "Either prompt or prompt_embeds must be provided and non-empty."
        raise RefusedError(400, f"{message} (parameter=prompt)", param="prompt")
    model = body.get("model")
    if model and model not in served:
        names = ", ".join(served)
        message = f"The model `{model}` does not exist. Valid aliases: {names}."
        raise RefusedError(404, message, "NotFoundError", "model")
    most = answers.asked(body)
    if most is not None and most < 1:
        raise RefusedError(400, f"max_tokens must be at least 1, got {most}.", param="max_tokens")
    several = int(body.get("n") or 1)
    if several > 1 and body.get("temperature") == 0:
        raise RefusedError(400, f"n must be 1 when using greedy sampling, got {several}.")


def check_length(length: int, max_model_len: int) -> None:
    """Refuse a prompt that leaves no room for a token."""
    if length + 1 > max_model_len:
        message = (
            f"This model's maximum context length is {max_model_len} tokens. However, your prompt "
            f"contains {length} input tokens, which exceeds this limit even without any output "
            "tokens. Please reduce the length of the input prompt."
        )
        raise RefusedError(400, message, param="input_tokens")
