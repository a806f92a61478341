"""Which header lines pass the proxy, and in which direction."""

from collections.abc import Iterable
from typing import Final

Headers = list[tuple[bytes, bytes]]
"""Names in lower case, and values."""

_HOP: Final = frozenset(
    (
        b"connection",
        b"keep-alive",
        b"proxy-connection",
        b"proxy-authenticate",
        b"te",
        b"trailer",
        b"proxy-authorization",
        b"transfer-encoding",
        b"upgrade",
        b"content-length",
    )
)
"""Belongs to one connection, or is said anew for each."""

_NOT_FROM_CLIENTS: Final = _HOP | frozenset(
    (
        b"host",
        b"expect",
        b"http2-settings",
        b"x-request-id",
        b"x-data-parallel-rank",
        b"x-prefiller-url",
        b"x-prefiller-host-port",
        b"x-data-parallel-host-port",
        b"x-kv-transfer-params",
        b"x-sagemaker-custom-attributes",
    )
)
"""A client must not choose an engine, a rank or a transfer."""

_KEYS: Final = frozenset((b"authorization", b"x-api-key", b"api-key", b"cookie"))

_NOT_FROM_ENGINES: Final = _HOP | {b"x-request-id"}
"""The proxy says it itself."""

_INTERNAL: Final = b"x-pd-"
_STEERING: Final = (_INTERNAL, b"x-amzn-sagemaker-")
"""Beginnings of names; by SageMaker's vLLM would take other models and adapters."""

_ALWAYS: Final = 1
_A_KEY: Final = 2
_MOST_NAMES: Final = 512
_LONGEST_NAME: Final = 64
_dropped: Final[dict[bytes, int]] = {}


def find(headers: Headers, name: bytes) -> bytes | None:
    """The first value of the name."""
    for key, value in headers:
        if key == name:
            return value
    return None


def to_engine(headers: Headers, keys: bool = True) -> bytes:
    """A client's header lines that an engine gets; all but the connection's and internal ones.

    Without `keys` not those that may hold an API key either.
    """
    lines = []
    named = _named(headers)
    for name, value in headers:
        dropped = _dropped.get(name)
        if dropped is None:
            dropped = _judge(name)
        if dropped & _ALWAYS or (dropped and not keys) or name in named:
            continue
        lines.append(b"%b: %b\r\n" % (name, value))
    return b"".join(lines)


def _judge(name: bytes) -> int:
    """What is dropped of a client's headers by its name; remembered, for most come again."""
    # Some servers take one for the other.
    known = name.replace(b"_", b"-")
    if known in _NOT_FROM_CLIENTS or known.startswith(_STEERING):
        dropped = _ALWAYS
    else:
        dropped = _A_KEY if known in _KEYS else 0
    if len(_dropped) < _MOST_NAMES and len(name) <= _LONGEST_NAME:
        _dropped[name] = dropped
    return dropped


def to_client(headers: Headers) -> bytes:
    """An engine's header lines that a client gets; all but the connection's."""
    lines = []
    named = _named(headers)
    for name, value in headers:
        if name in _NOT_FROM_ENGINES or name in named or name.startswith(_INTERNAL):
            continue
        lines.append(b"%b: %b\r\n" % (name, value))
    return b"".join(lines)


def _named(headers: Headers) -> Iterable[bytes]:
    """Names that a Connection header declares to be of this connection alone."""
    for name, value in headers:
        if name == b"connection":
            return {part.strip() for part in value.lower().split(b",")}
    return ()
