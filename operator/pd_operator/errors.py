"""Errors of the API server, and what each kind of them asks for; pure."""

import re
from enum import StrEnum
from typing import Final

_UNFIT: Final = re.compile(
    r"field not declared in schema|failed to create typed patch object|"
    r"failed to convert|unable to convert|cannot unmarshal|unknown field",
    re.IGNORECASE,
)
"""The API server answers 500 to an apply of an unknown or mistyped field."""


class Class(StrEnum):
    """What to do about an error."""

    TRANSIENT = "Transient"
    """Try again after a while."""
    CONFLICT = "Conflict"
    """The view was stale: look again at once."""
    REFUSED = "Refused"
    """Trying the same again is of no use: tell the user, try again rarely."""
    ENDING = "Ending"
    """The namespace is being deleted: nothing to do."""


class ApiError(Exception):
    """The API server refused, or could not be reached (`status` 0).

    `reason` is Kubernetes' word for it (`NotFound`); `retry_after` is in seconds where the server
    named a time.
    """

    def __init__(
        self, status: int, reason: str, message: str, retry_after: float | None = None
    ) -> None:
        super().__init__(f"{reason or status}: {message}")
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after = retry_after


class FencedError(Exception):
    """A write was held back: this process may not be the leader any more."""


def classify(error: ApiError) -> Class:
    """What an error asks for."""
    if error.status == 403 and "is being terminated" in error.message:
        return Class.ENDING
    if error.status == 404 and error.message.startswith("namespaces "):
        return Class.ENDING
    if error.status in (409, 410):
        return Class.CONFLICT
    if error.status == 500 and _UNFIT.search(error.message):
        return Class.REFUSED
    if error.status in (400, 403, 405, 406, 413, 415, 422):
        return Class.REFUSED
    return Class.TRANSIENT
