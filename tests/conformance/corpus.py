"""Requests whose answers must come through the proxy as the engine gave them."""

import json
from typing import Any, Final

COMPLETIONS: Final = "/v1/completions"
CHAT: Final = "/v1/chat/completions"

_TOOLS: Final = [
    {
        "type": "function",
        "function": {
            "name": "weather",
            "description": "The weather at a place",
            "parameters": {
                "type": "object",
                "properties": {"place": {"type": "string"}},
                "required": ["place"],
            },
        },
    }
]
_USER: Final = [{"role": "user", "content": "Zażółć gęślą jaźń 🦊, 日本語?"}]


def _completion(**more: Any) -> tuple[str, bytes]:
    body = {"model": "tiny", "prompt": "one two three", "max_tokens": 6, "temperature": 0, **more}
    return COMPLETIONS, json.dumps({k: v for k, v in body.items() if v is not None}).encode()


def _chat(**more: Any) -> tuple[str, bytes]:
    body = {"model": "tiny", "messages": _USER, "max_tokens": 6, "temperature": 0, **more}
    return CHAT, json.dumps({k: v for k, v in body.items() if v is not None}).encode()


_SAMPLED: Final = {"temperature": 1, "seed": 3}
"""Of several answers: greedy ones vLLM refuses."""
_USAGE: Final = {"stream": True, "stream_options": {"include_usage": True}}
_EACH: Final = {
    "stream": True,
    "stream_options": {"include_usage": True, "continuous_usage_stats": True},
}

ANSWERED: Final[dict[str, tuple[str, bytes]]] = {
    "completion": _completion(),
    "completion of one token": _completion(max_tokens=1),
    "completion, stream": _completion(stream=True),
    "completion, stream of one token": _completion(stream=True, max_tokens=1),
    "completion, stream with usage": _completion(**_USAGE),
    "completion, stream with usage in each event": _completion(**_EACH),
    "completion without max_tokens": _completion(max_tokens=None),
    "completion, no model": _completion(model=None),
    "completion, n": _completion(n=3, **_SAMPLED),
    "completion, n, stream": _completion(n=3, stream=True, **_SAMPLED),
    "completion, logprobs": _completion(logprobs=3),
    "completion, logprobs, stream": _completion(logprobs=3, stream=True),
    "completion, echo": _completion(echo=True),
    "completion, echo, logprobs": _completion(echo=True, logprobs=1),
    "completion, echo, stream": _completion(echo=True, stream=True),
    "completion, list": _completion(prompt=["one two", "three"]),
    "completion, list, stream": _completion(prompt=["one two", "three"], stream=True),
    "completion, list of one": _completion(prompt=["one two"]),
    "completion, tokens": _completion(prompt=[5, 6, 7, 8]),
    "completion, unicode": _completion(prompt='\u0000\ud83e\udd8a é \u2028 \\ " \n 日本'),
    "completion, unicode as it is": (
        COMPLETIONS,
        '{"model":"tiny","prompt":"é 🦊 日本","max_tokens":6,"temperature":0}'.encode(),
    ),
    "completion, white space": (
        COMPLETIONS,
        b' \n{ "model" : "tiny" ,\t"prompt":"a b", "max_tokens":6, "temperature":0 } \r\n',
    ),
    "completion, a key twice": (
        COMPLETIONS,
        b'{"model":"tiny","prompt":"a","prompt":"b c","max_tokens":6,"temperature":0}',
    ),
    "completion, unknown fields": _completion(nobody_knows={"deep": [1, None, 2.5]}, user="u"),
    "chat": _chat(),
    "chat, stream": _chat(stream=True),
    "chat, stream with usage": _chat(**_USAGE),
    "chat, stream with usage in each event": _chat(**_EACH),
    "chat, max_completion_tokens": _chat(max_tokens=None, max_completion_tokens=4),
    "chat, n": _chat(n=2, **_SAMPLED),
    "chat, n, stream": _chat(n=2, stream=True, **_SAMPLED),
    "chat, logprobs": _chat(logprobs=True, top_logprobs=2),
    "chat, logprobs, stream": _chat(logprobs=True, top_logprobs=2, stream=True),
    "chat of several turns": _chat(
        messages=[
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "a"},
            {"role": "assistant", "content": "b"},
            {"role": "user", "content": "c"},
        ]
    ),
}
"""Greedy or with a seed, so that two engines answer alike."""

TOOLS: Final[dict[str, tuple[str, bytes]]] = {
    "tool, named": _chat(
        tools=_TOOLS,
        tool_choice={"type": "function", "function": {"name": "weather"}},
        max_tokens=None,
    ),
    "tool, required": _chat(tools=_TOOLS, tool_choice="required", max_tokens=None),
    "tool, required, stream": _chat(
        tools=_TOOLS, tool_choice="required", max_tokens=None, stream=True
    ),
    "tools that need not be called": _chat(tools=_TOOLS, tool_choice="none"),
}

REFUSED: Final[dict[str, tuple[str, bytes]]] = {
    "several greedy answers": _completion(n=2),
    "no prompt": _completion(prompt=None),
    "empty prompt": _completion(prompt=""),
    "no messages": _chat(messages=None),
    "unknown model": _completion(model="nobody"),
    "unknown model, chat": _chat(model="nobody"),
    "max_tokens of 0": _completion(max_tokens=0),
    "max_tokens as a text": _completion(max_tokens="x"),
    "stream_options without a stream": _completion(stream_options={"include_usage": True}),
    "a prompt that is too long": _completion(prompt="word " * 5000),
    "a prompt that is too long, stream": _completion(prompt="word " * 5000, stream=True),
}
"""What the engine itself refuses."""
