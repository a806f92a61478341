"""How much may be dispatched again: a part of what arrives, so that retries cannot storm.

Counted in tokens, for a retry costs what its prompt costs.
"""

from typing import Final

_PART: Final = 0.2
"""Of the tokens that arrive."""
MOST: Final = 1024.0 * 1024
"""What a time without retries leaves: enough for all that was on an engine when it died."""
_EACH: Final = 256
_BYTES_PER_TOKEN: Final = 4


def cost(size: int) -> int:
    """Tokens that a request stands for; `size` is its body's, in bytes."""
    return _EACH + size // _BYTES_PER_TOKEN


class RetryBudget:
    """Filled by requests, spent by retries."""

    def __init__(self) -> None:
        self._left = MOST

    def earn(self, tokens: int) -> None:
        """A request has arrived."""
        self._left = min(MOST, self._left + _PART * tokens)

    def spend(self, tokens: int) -> bool:
        """Whether one more retry is allowed; it is then counted.

        What one costs more than there is left is owed: a long prompt can be saved too.
        """
        if self._left <= 0:
            return False
        self._left -= tokens
        return True
