"""How much may be dispatched again: a part of what arrives, so that retries cannot storm."""

from typing import Final

_PART: Final = 0.2
"""Retries earned by each request."""
_MOST: Final = 64.0


class RetryBudget:
    """Filled by requests, spent by retries."""

    def __init__(self) -> None:
        self._left = _MOST

    def earn(self) -> None:
        """A request has arrived."""
        self._left = min(_MOST, self._left + _PART)

    def spend(self) -> bool:
        """Whether one more retry is allowed; it is then counted."""
        if self._left < 1:
            return False
        self._left -= 1
        return True
