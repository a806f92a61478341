"""Follows a stream of server-sent events: where events end, tokens, usage."""

import re
from typing import Any, Final

import orjson

_MAX_EVENT: Final = 1024 * 1024
"""A longer event is passed on in parts."""
_DONE: Final = b"data: [DONE]\n\n"
_USAGE: Final = b'"usage":{'
_NO_CHOICES: Final = b'"choices":[]'
_COMPLETION_TOKENS: Final = re.compile(rb'"completion_tokens":\s*(\d+)')
_PROMPT_TOKENS: Final = re.compile(rb'"prompt_tokens":\s*(\d+)')


class EventStream:
    """The events of one answer.

    With `count`, events are those of completions: `tokens` grows with each event that has a
    token, `completion_tokens` and `prompt_tokens` are set where the engine tells its usage.
    """

    __slots__ = (
        "_count",
        "_tail",
        "completion_tokens",
        "done",
        "error_first",
        "prompt_tokens",
        "tokens",
    )

    def __init__(self, count: bool) -> None:
        self._count = count
        self._tail = b""
        self.tokens = 0
        self.completion_tokens: int | None = None
        self.prompt_tokens: int | None = None
        self.done = False
        self.error_first = False
        """Whether the first event with data is an error."""

    def feed(self, data: bytes) -> bytes:
        """The whole events up to here; a begun one is kept back for its rest."""
        if self._tail or not data.endswith(b"\n\n"):
            data = self._cut(self._tail + data)
        if not self._count or not data:
            return data
        # By far the most common: one event, of one line. JSON has no line break of its own.
        if self.tokens and data.startswith(b"data: {") and data.find(b"\n") == len(data) - 2:
            self.tokens += 1
            if _USAGE in data:
                self._read_usage(data)
                if _NO_CHOICES in data:
                    self.tokens -= 1
        else:
            self._look(data)
        return data

    def one(self, data: bytes, start: int, end: int) -> bool:
        """Whether `data[start:end]` is one whole event with one token, as most are: then it counts.

        Else nothing is changed, and it is to be fed.
        """
        if (
            self._tail
            or not self.tokens
            or not data.startswith(b"data: {", start)
            or data.find(b"\n", start) != end - 2
            or not data.startswith(b"\n", end - 1)
            or data.find(_USAGE, start, end) >= 0
        ):
            return False
        self.tokens += 1
        return True

    def rest(self) -> bytes:
        """What was kept back, at the stream's end."""
        rest, self._tail = self._tail, b""
        return rest

    def _cut(self, data: bytes) -> bytes:
        end = max(data.rfind(b"\n\n") + 2, data.rfind(b"\n\r\n") + 3)
        if end < 2 or (end == 2 and not data.startswith(b"\n\n")):
            end = 0
        if len(data) - end > _MAX_EVENT:
            end = len(data)
        self._tail = data[end:]
        return data[:end]

    def _look(self, data: bytes) -> None:
        if self.tokens == 0 or data[:1] == b":" or b"\n:" in data or b"\r" in data:
            self._look_closely(data)
        else:
            self.tokens += data.count(b"\n\n")
            if data.endswith(_DONE):
                self.done = True
                self.tokens -= 1
            if _NO_CHOICES in data:
                self.tokens -= 1
        if _USAGE in data:
            self._read_usage(data)

    def _look_closely(self, data: bytes) -> None:
        for event in data.replace(b"\r\n", b"\n").split(b"\n\n"):
            lines = event.split(b"\n")
            payload = b"\n".join(line[5:].strip() for line in lines if line.startswith(b"data:"))
            if payload == b"[DONE]":
                self.done = True
            elif payload:
                self._look_at(payload)

    def _look_at(self, payload: bytes) -> None:
        try:
            value = orjson.loads(payload)
        except ValueError:
            return
        if not isinstance(value, dict):
            return
        if "error" in value:
            self.error_first |= self.tokens == 0
            return
        choices = value.get("choices")
        if isinstance(choices, list) and any(_has_token(c) for c in choices):
            self.tokens += 1

    def _read_usage(self, data: bytes) -> None:
        usage = data[data.rfind(_USAGE) :]
        if found := _COMPLETION_TOKENS.search(usage):
            self.completion_tokens = int(found[1])
        if found := _PROMPT_TOKENS.search(usage):
            self.prompt_tokens = int(found[1])


def usage_of(body: bytes) -> tuple[int | None, int | None]:
    """Prompt and completion tokens that an answer in one piece tells; None where it does not.

    The name with its quotes cannot stand inside a JSON text, so the body need not be parsed.
    """
    start = body.rfind(_USAGE)
    if start < 0 and (start := body.rfind(b'"usage"')) < 0:
        return None, None
    prompt = _PROMPT_TOKENS.search(body, start)
    completion = _COMPLETION_TOKENS.search(body, start)
    return int(prompt[1]) if prompt else None, int(completion[1]) if completion else None


def _has_token(choice: Any) -> bool:
    if not isinstance(choice, dict):
        return False
    if "text" in choice or choice.get("finish_reason"):
        return True
    delta = choice.get("delta")
    return isinstance(delta, dict) and any(
        delta.get(key) for key in ("content", "reasoning_content", "reasoning", "tool_calls")
    )
