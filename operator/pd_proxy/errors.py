"""Errors that the proxy itself answers, in OpenAI's shape."""

from dataclasses import dataclass, field
from typing import Final

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

    def body(self) -> bytes:
        """The JSON body."""
        kind = self.type or _TYPES.get(self.status, "InternalServerError")
        return orjson.dumps(
            {"error": {"message": self.message, "type": kind, "param": None, "code": self.status}}
        )

    def event(self) -> bytes:
        """The same as the last events of a stream."""
        return b"data: " + self.body() + b"\n\ndata: [DONE]\n\n"


def overloaded(message: str, seconds: int = 1, status: int = 503) -> ProxyError:
    """503, or 429 where it is the client's own doing; it may come again in so many seconds."""
    return ProxyError(status, message, b"retry-after: %d\r\n" % seconds)
