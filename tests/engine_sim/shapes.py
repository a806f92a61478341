"""vLLM's JSON: answers in one piece, events of streams, usage, logprobs (0.32's fields)."""

import json
from dataclasses import dataclass
from typing import Any

from tests.engine_sim import answers
from tests.engine_sim.answers import Choice

DONE = b"data: [DONE]\n\n"


@dataclass(frozen=True)
class Envelope:
    """What all parts of one answer share."""

    body: dict[str, Any]
    request_id: str
    model: str = answers.MODEL
    created: int = 1
    fingerprint: str = "vllm-sim"

    @property
    def chat(self) -> bool:
        return "messages" in self.body

    @property
    def id(self) -> str:
        return f"{'chatcmpl' if self.chat else 'cmpl'}-{self.request_id}"


def dumps(value: Any) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def usage(prompt: int, completion: int) -> dict[str, Any]:
    return {"prompt_tokens": prompt, "total_tokens": prompt + completion,
            "completion_tokens": completion}  # fmt: skip


def whole(to: Envelope, choices: list[Choice], prompt: int, params: Any = None) -> dict[str, Any]:
    """The answer in one piece; `params` are kv_transfer_params."""
    completion = sum(len(choice.tokens) for choice in choices)
    more = {"prompt_logprobs": None, "prompt_token_ids": None, "prompt_text": None}
    return {
        "id": to.id,
        "object": "chat.completion" if to.chat else "text_completion",
        "created": to.created,
        "model": to.model,
        "choices": [(_chat_choice if to.chat else _choice)(to.body, one) for one in choices],
        "service_tier": None,
        "system_fingerprint": to.fingerprint,
        "usage": {**usage(prompt, completion), "prompt_tokens_details": None,
                  "completion_tokens_details": None},
        **(more if to.chat else {}),
        "kv_transfer_params": params,
        "ec_transfer_params": None,
        "metrics": None,
    }  # fmt: skip


def _choice(body: dict[str, Any], choice: Choice) -> dict[str, Any]:
    echoed = choice.echo.split() if choice.echo else []
    return {
        "index": choice.index,
        "text": choice.text,
        "logprobs": logprobs(body, choice.tokens, echoed=echoed),
        "finish_reason": choice.finish,
        "stop_reason": None,
        "token_ids": None,
        "prompt_logprobs": None,
        "prompt_token_ids": None,
        "routed_experts": None,
    }


def _chat_choice(body: dict[str, Any], choice: Choice) -> dict[str, Any]:
    tool = answers.called_tool(body)
    message: dict[str, Any] = {
        "role": "assistant", "content": "" if tool else choice.text, "refusal": None,
        "annotations": None, "audio": None, "function_call": None, "reasoning": None,
    }  # fmt: skip
    if tool:
        function = {"name": tool, "arguments": "".join(answers.arguments(choice))}
        message["tool_calls"] = [{"id": _call_id(choice), "type": "function", "function": function}]
    return {
        "index": choice.index,
        "message": message,
        "logprobs": chat_logprobs(body, choice.tokens),
        "finish_reason": _finish(body, choice),
        "stop_reason": None,
        "token_ids": None,
        "routed_experts": None,
    }


def _finish(body: dict[str, Any], choice: Choice) -> str:
    called = body.get("tool_choice") == "required" and answers.called_tool(body) is not None
    return "tool_calls" if called and choice.finish == "stop" else choice.finish


def _call_id(choice: Choice) -> str:
    return f"chatcmpl-tool-{choice.index}{choice.tokens[0].strip() if choice.tokens else ''}"


def logprobs(
    body: dict[str, Any], tokens: list[str], start: int = 0, echoed: list[str] | None = None
) -> dict[str, Any] | None:
    """Of a completion; of an echoed prompt's first token there are none."""
    top = body.get("logprobs")
    if top is None:
        return None
    everything = [*(echoed or []), *tokens]
    offsets, values, tops = [], [], []
    offset = start
    for number, token in enumerate(everything):
        known = number > 0 or not echoed
        offsets.append(offset)
        values.append(-0.125 if known else None)
        tops.append({token: -0.125, **{f"~{k}": -2.0 - k for k in range(int(top))}}
                    if known else None)  # fmt: skip
        offset += len(token)
    return {"text_offset": offsets, "token_logprobs": values, "tokens": everything,
            "top_logprobs": tops}  # fmt: skip


def chat_logprobs(body: dict[str, Any], tokens: list[str]) -> dict[str, Any] | None:
    if not body.get("logprobs"):
        return None
    top = int(body.get("top_logprobs") or 0)
    content = []
    for token in tokens:
        names = [token, *(f"~{k}" for k in range(top - 1))][:top]
        best = [_one(name, -0.125 - k) for k, name in enumerate(names)]
        content.append({**_one(token, -0.125), "top_logprobs": best})
    return {"content": content}


def _one(token: str, value: float) -> dict[str, Any]:
    return {"token": token, "logprob": value, "bytes": list(token.encode())}


def events(to: Envelope, choices: list[Choice], prompt: int) -> list[bytes]:
    """The events of a stream, one for each token of each choice, without [DONE].

    Before them a chat's roles, behind them the usage where it is asked for.
    """
    options = to.body.get("stream_options") or {}
    base = {
        "id": to.id,
        "object": "chat.completion.chunk" if to.chat else "text_completion",
        "created": to.created,
        "model": to.model,
    }
    steps = [_parts(to, choice) for choice in choices]
    made: list[bytes] = []
    sent = [0] * len(choices)

    def put(choice: dict[str, Any], count: int, **more: Any) -> None:
        if options.get("include_usage") and options.get("continuous_usage_stats"):
            # Of a chat these have one field more than the last event's.
            details = {"completion_tokens_details": None} if to.chat else {}
            more = {"usage": {**usage(prompt, count), **details}, **more}
        made.append(b"data: %b\n\n" % dumps({**base, "choices": [choice], **more}))

    if to.chat:
        for choice in choices:
            role = {"role": "assistant", "content": ""}
            first = {"index": choice.index, "delta": role, "logprobs": None}
            put({**first, "finish_reason": None}, 0, prompt_token_ids=None, prompt_text=None)
    for number in range(max((len(step) for step in steps), default=0)):
        for choice, step in zip(choices, steps, strict=True):
            if number < len(step):
                sent[choice.index] = number + 1
                ends = number == len(step) - 1 and not options.get("include_usage")
                more = {"system_fingerprint": to.fingerprint} if ends else {}
                put(step[number], sent[choice.index], **more)
    if options.get("include_usage"):
        total = sum(len(choice.tokens) for choice in choices)
        last: dict[str, Any] = {**base, "choices": [], "usage": usage(prompt, total)}
        made.append(b"data: %b\n\n" % dumps({**last, "system_fingerprint": to.fingerprint}))
    return made


def _parts(to: Envelope, choice: Choice) -> list[dict[str, Any]]:
    """A choice's part of each event."""
    parts: list[dict[str, Any]] = []
    offset = len(choice.echo)
    tool = answers.called_tool(to.body) if to.chat else None
    pieces = answers.arguments(choice) if tool else choice.tokens
    for number, piece in enumerate(pieces):
        last = number == len(pieces) - 1
        part: dict[str, Any] = {"index": choice.index}
        if not to.chat:
            echo = choice.echo if number == 0 else ""
            part["text"] = echo + piece
            part["logprobs"] = logprobs(
                to.body, [piece], 0 if echo else offset, echo.split() if echo else None
            )
            part["finish_reason"] = choice.finish if last else None
            part |= {"stop_reason": None, "prompt_token_ids": None, "token_ids": None}
            offset += len(piece)
        else:
            part["delta"] = _call(choice, tool, number, piece) if tool else {"content": piece}
            part["logprobs"] = None if tool else chat_logprobs(to.body, [piece])
            part["finish_reason"] = _finish(to.body, choice) if last else None
            if last:
                part["stop_reason"] = None
            part["token_ids"] = None
        parts.append(part)
    return parts


def _call(choice: Choice, tool: str, number: int, piece: str) -> dict[str, Any]:
    call: dict[str, Any] = {"index": 0, "function": {"arguments": piece}}
    if number == 0:
        call = {"id": _call_id(choice), "type": "function", "index": 0,
                "function": {"name": tool, "arguments": piece}}  # fmt: skip
    return {"tool_calls": [call]}


def error(
    status: int, message: str, kind: str | None = None, param: str | None = None
) -> dict[str, Any]:
    """vLLM's error body."""
    kind = kind or ("BadRequestError" if status < 500 else "InternalServerError")
    return {"error": {"message": message, "type": kind, "param": param, "code": status}}
