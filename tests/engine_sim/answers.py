"""What a simulated engine answers: tokens that tell which prompt they were made from."""

import hashlib
import json
from typing import Any

MODEL = "tiny"
DEFAULT_TOKENS = 16


def prompt_of(body: dict[str, Any]) -> str:
    """The prompt's text; of a chat all messages."""
    if "messages" in body:
        return "\n".join(f"{m.get('role')}: {m.get('content')}" for m in body["messages"])
    return str(body.get("prompt", ""))


def prompt_tokens(prompt: str) -> int:
    return max(1, len(prompt.split()))


def tokens(prompt: str, count: int) -> list[str]:
    """The greedy continuation of a prompt."""
    mark = hashlib.sha256(prompt.encode()).hexdigest()[:6]
    return [f" {mark}.{index}é" for index in range(count)]


def wanted(body: dict[str, Any]) -> int:
    return int(body.get("max_completion_tokens") or body.get("max_tokens") or DEFAULT_TOKENS)


def usage(prompt: int, completion: int) -> dict[str, Any]:
    return {
        "prompt_tokens": prompt,
        "total_tokens": prompt + completion,
        "completion_tokens": completion,
        "prompt_tokens_details": None,
    }


def whole(body: dict[str, Any], request_id: str, text: str, prompt: int, count: int) -> Any:
    """The answer in one piece."""
    chat = "messages" in body
    choice: dict[str, Any] = {"index": 0}
    if chat:
        choice["message"] = {"role": "assistant", "content": text, "tool_calls": []}
    else:
        choice["text"] = text
    choice |= {"logprobs": None, "finish_reason": "length", "stop_reason": None}
    return {
        "id": f"{'chatcmpl' if chat else 'cmpl'}-{request_id}",
        "object": "chat.completion" if chat else "text_completion",
        "created": 1,
        "model": body.get("model", MODEL),
        "choices": [choice],
        "usage": usage(prompt, count),
        "kv_transfer_params": None,
    }


def events(body: dict[str, Any], request_id: str, parts: list[str], prompt: int) -> list[bytes]:
    """The events of a stream: one for each token, before them the role in a chat."""
    chat = "messages" in body
    base = {
        "id": f"{'chatcmpl' if chat else 'cmpl'}-{request_id}",
        "object": "chat.completion.chunk" if chat else "text_completion",
        "created": 1,
        "model": body.get("model", MODEL),
    }
    made: list[bytes] = []

    def put(choices: list[Any], **more: Any) -> None:
        text = json.dumps({**base, "choices": choices, **more}, separators=(",", ":"))
        made.append(f"data: {text}\n\n".encode())

    if chat:
        put([{"index": 0, "delta": {"role": "assistant", "content": ""}, "finish_reason": None}])
    for index, part in enumerate(parts):
        reason = "length" if index == len(parts) - 1 else None
        said: dict[str, Any] = {"delta": {"content": part}} if chat else {"text": part}
        put([{"index": 0, **said, "logprobs": None, "finish_reason": reason}])
    if (body.get("stream_options") or {}).get("include_usage"):
        put([], usage=usage(prompt, len(parts)))
    made.append(b"data: [DONE]\n\n")
    return made


def error(status: int, message: str) -> dict[str, Any]:
    """vLLM's error body."""
    kind = "BadRequestError" if status < 500 else "InternalServerError"
    return {"error": {"message": message, "type": kind, "param": None, "code": status}}
