"""What a simulated engine answers: tokens that tell which prompt they were made from."""

import hashlib
import json
from dataclasses import dataclass
from typing import Any

MODEL = "tiny"
DEFAULT_TOKENS = 16


@dataclass(frozen=True)
class Choice:
    """One sequence of an answer; the prompt's text is set where it is echoed."""

    index: int
    tokens: list[str]
    finish: str
    echo: str = ""

    @property
    def text(self) -> str:
        return self.echo + "".join(self.tokens)


def prompts_of(body: dict[str, Any]) -> list[str]:
    """The prompts' texts; a chat is one prompt of all messages, a list of numbers is one too."""
    if "messages" in body:
        return ["\n".join(f"{m.get('role')}: {m.get('content')}" for m in body["messages"])]
    prompt = body.get("prompt", "")
    if not isinstance(prompt, list):
        return [str(prompt)]
    if all(isinstance(part, int) for part in prompt):
        return [_words(prompt)]
    return [_words(part) if isinstance(part, list) else str(part) for part in prompt]


def _words(numbers: list[int]) -> str:
    return " ".join(map(str, numbers))


def prompt_tokens(prompt: str) -> int:
    return max(1, len(prompt.split()))


def token_ids(prompt: str) -> list[int]:
    """A number for each word: the same for the same word."""
    return [int(hashlib.sha256(word.encode()).hexdigest()[:6], 16) for word in prompt.split()]


def tokens(prompt: str, count: int) -> list[str]:
    """The greedy continuation of a prompt."""
    mark = hashlib.sha256(prompt.encode()).hexdigest()[:6]
    return [f" {mark}.{index}é" for index in range(count)]


def asked(body: dict[str, Any]) -> int | None:
    """The most tokens that the request wants; None where it does not say."""
    value = body.get("max_completion_tokens") if "messages" in body else None
    value = body.get("max_tokens") if value is None else value
    return None if value is None else int(value)


def choices(body: dict[str, Any], prompts: list[str], room: int) -> list[Choice]:
    """All sequences: each prompt's `n` in turn. Greedy, so the `n` are alike.

    A chat that does not say how long it may be ends by itself; a completion after 16 tokens.
    """
    most = asked(body)
    count = min(DEFAULT_TOKENS if most is None else most, room)
    ends = most is None and "messages" in body
    made: list[Choice] = []
    for prompt in prompts:
        for _ in range(int(body.get("n") or 1)):
            echo = prompt if body.get("echo") and "messages" not in body else ""
            finish = "stop" if ends else "length"
            made.append(Choice(len(made), tokens(prompt, count), finish, echo))
    return made


def called_tool(body: dict[str, Any]) -> str | None:
    """The function that a chat has to call; None where it may answer with text."""
    choice = body.get("tool_choice")
    if isinstance(choice, dict):
        return str(choice["function"]["name"])
    if choice == "required" and body.get("tools"):
        return str(body["tools"][0]["function"]["name"])
    return None


def arguments(choice: Choice) -> list[str]:
    """The arguments of a tool's call, in pieces."""
    return ['{"said":', json.dumps(choice.text, ensure_ascii=False), "}"]
