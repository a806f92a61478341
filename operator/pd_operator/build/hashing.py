"""Short stable hashes of JSON values, for revisions, pairings and configuration."""

import hashlib
import json
from typing import Any, Final

_LETTERS: Final = "bcdfghjklmnpqrstvwxz"


def canonical_json(value: Any) -> str:
    """JSON that is equal for equal values: keys sorted, no spaces."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def short_hash(value: Any, length: int = 8) -> str:
    """`length` letters that stand for a JSON value.

    Letters alone: YAML readers take some hex digits, such as 1549564 or 1234e567, for a number.
    """
    number = int.from_bytes(hashlib.sha256(canonical_json(value).encode()).digest(), "big")
    letters = []
    for _ in range(length):
        number, index = divmod(number, len(_LETTERS))
        letters.append(_LETTERS[index])
    return "".join(letters)
