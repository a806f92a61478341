"""Errors that the proxy itself answers, in OpenAI's shape."""

from dataclasses import dataclass, field
from typing import Any, Final

import orjson

JSON: Final = b"content-type: application/json\r\n"

_TYPES: Final = {
    400: "BadRequestError",
    401: "AuthenticationError",
    404: "NotFoundError",
    405: "MethodNotAllowedError",
    413: "RequestEntityTooLargeError",
    429: "RateLimitError",
    431: "RequestHeaderFieldsTooLargeError",
    500: "InternalServerError",
    502: "BadGatewayError",
    503: "ServiceUnavailableError",
    504: "GatewayTimeoutError",
}


@dataclass(frozen=True)
class ProxyError(Exception):
    """An answer instead of the engine's: status, one line for the user, further header lines."""

    status: int
    message: str
    headers: bytes = b""
    type: str = field(default="")

    def value(self) -> dict[str, Any]:
        """The JSON value."""
        kind = self.type or _TYPES.get(self.status, "InternalServerError")
        return {"error": {
            "message": self.message, "type": kind, "param": None, "code": self.status,
        }}  # fmt: skip

    def body(self) -> bytes:
        """The JSON body."""
        return orjson.dumps(self.value())


def overloaded(message: str, seconds: int = 1, status: int = 503) -> ProxyError:
    """503, or 429 where it is the client's own doing; it may come again in so many seconds."""
    return ProxyError(status, message, b"retry-after: %d\r\n" % seconds)
