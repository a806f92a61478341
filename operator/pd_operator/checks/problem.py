"""What a check finds."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong with a spec.

    `reason` is a CamelCase word for the condition, `field` the path of the field, `message` one
    line that names the field and says what is allowed.
    """

    reason: str
    field: str
    message: str
