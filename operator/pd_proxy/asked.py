"""What a client asks of the proxy itself, by headers."""

from dataclasses import dataclass, replace
from typing import Final

from pd_proxy.errors import ProxyError
from pd_proxy.fair_queue import HIGH, LOW, NORMAL
from pd_proxy.http.headers import Headers

PRIORITY: Final = b"x-request-priority"
TIMEOUT: Final = b"x-request-timeout"

_PRIORITIES: Final = {b"high": HIGH, b"normal": NORMAL, b"low": LOW}
_DIGITS: Final = 9


@dataclass(frozen=True, slots=True)
class Asked:
    """`patience` are the seconds from the arrival in which the answer must have begun."""

    priority: int
    patience: float


def read_asked(headers: Headers, usual: Asked) -> Asked:
    """What is asked, with no more patience than usual; ProxyError 400 where it is not clear."""
    asked = usual
    for name, value in headers:
        if name == PRIORITY:
            priority = _PRIORITIES.get(value.strip().lower())
            if priority is None:
                raise ProxyError(400, "x-request-priority must be high, normal or low")
            asked = replace(asked, priority=priority)
        elif name == TIMEOUT:
            asked = replace(asked, patience=min(asked.patience, _seconds(value.strip())))
    return asked


def _seconds(value: bytes) -> float:
    whole, _, part = value.partition(b".")
    if not whole.isdigit() or len(value) > _DIGITS or (part and not part.isdigit()):
        raise ProxyError(400, "x-request-timeout must be a number of seconds, such as 10 or 2.5")
    seconds = float(value)
    if seconds <= 0:
        raise ProxyError(400, "x-request-timeout must be more than 0 seconds")
    return seconds
