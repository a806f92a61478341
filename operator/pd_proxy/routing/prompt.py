"""What the choice needs of a prompt: its length, and hashes of its beginnings.

The text stands for the tokens: equal texts have equal tokens, so what two prompts share of their
texts they share of their KV cache, to within a token.
"""

from bisect import bisect_right
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from zlib import crc32

import orjson

BLOCK_BYTES: Final = 512
"""The shortest block, about 128 tokens."""
_GROWTH: Final = 8
"""A block is as long as an eighth of what is before it: few blocks, whatever the length."""
_KEY_BLOCKS: Final = 4
"""Prompts that share so many blocks have one home."""


def _ends(most: int) -> list[int]:
    ends, end = [], 0
    while end < most:
        end += max(BLOCK_BYTES, end // _GROWTH)
        ends.append(end)
    return ends


ENDS: Final = _ends(64 * 1024 * 1024)
"""Where blocks end, in bytes of the text; the same for every prompt."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """Hashes of a prompt's beginnings: `blocks[i]` is that of its first `ENDS[i]` bytes."""

    size: int
    """Bytes of its text."""
    blocks: tuple[int, ...] = ()
    key: int | None = None
    """Prompts with the same one should meet the same pods; None where there is nothing to share."""
    shared: int = 0
    """Bytes of which the key's home is likely to have the KV cache."""


NO_PROMPT: Final = Prompt(0)


def prompt_of(
    fields: Mapping[str, Any], chat: bool, session: bytes | None, hashed: bool = True
) -> Prompt:
    """The prompt in a request's body; `session` is the value of the client's session header.

    Not `hashed`: only sessions have homes.
    """
    seed = crc32(str(fields.get("model")).encode("utf-8", "replace"))
    # Engines do not share their caches between different salts.
    if (salt := fields.get("cache_salt")) is not None:
        seed = crc32(str(salt).encode("utf-8", "replace"), seed)
    text = _text(fields, chat)
    blocks = hashes(text, seed) if hashed else ()
    if session is not None:
        return Prompt(len(text), blocks, crc32(session, seed), len(text))
    if not blocks:
        return Prompt(len(text))
    depth = min(_KEY_BLOCKS, len(blocks))
    return Prompt(len(text), blocks, blocks[depth - 1], ENDS[depth - 1])


def hashes(text: bytes, seed: int) -> tuple[int, ...]:
    """Chained hashes of the text's whole blocks: each stands for all before it too.

    CRC-32 is in the standard library, the same in every process, and faster than all else there;
    a collision costs a prompt its good choice, no more.
    """
    blocks, start, value = [], 0, seed
    for end in ENDS[: bisect_right(ENDS, len(text))]:
        value = crc32(text[start:end], value)
        blocks.append(value)
        start = end
    return tuple(blocks)


def _text(fields: Mapping[str, Any], chat: bool) -> bytes:
    """The prompt in bytes, in the order in which its tokens come."""
    if chat:
        # Templates put the tools before the messages.
        tools = fields.get("tools")
        messages = _json(fields.get("messages"))[:-1]  # the next turn goes on where this one ends
        return messages if tools is None else _json(tools) + messages
    prompt = fields.get("prompt")
    if isinstance(prompt, str):
        return prompt.encode("utf-8", "replace")
    return _json(prompt)[:-1]


def _json(value: Any) -> bytes:
    try:
        return orjson.dumps(value)
    except TypeError:  # a lone surrogate, which the engine has to refuse
        return b""
