"""The body of a completion request, as far as the proxy must understand it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import orjson

from pd_proxy.errors import ProxyError

_PARAMS: Final = ("kv_transfer_params", "ec_transfer_params")
"""What would steer a transfer of KV, or of an encoder's output: never the client's to set."""
_SALT: Final = "cache_salt"

Salt = Callable[[str | None], str | None]
"""From the salt that a client gave to the one that its request gets, None for none."""
_CARRIERS: Final = ("vllm_xargs", "extra_args")
"""Objects whose entries vLLM hands to the connectors as it does with the key itself."""


@dataclass(slots=True)
class Completion:
    """`raw` is what a decoder gets: the client's own bytes wherever that is safe."""

    raw: bytes
    fields: dict[str, Any]
    chat: bool
    stream: bool

    def with_params(self, params: bytes) -> bytes:
        """The client's body with `kv_transfer_params`, a JSON object, at its end.

        Spliced in, so that what the client wrote stays as it is: numbers keep all digits.
        """
        return _with(self.raw, b"kv_transfer_params", params)


def completion(raw: bytes, chat: bool, salt: Salt | None = None) -> Completion:
    """Read a body; ProxyError 400 where it is no JSON object."""
    raw, fields = _cleaned(raw, salt)
    return Completion(raw, fields, chat, fields.get("stream") is True)


def harmless(raw: bytes, salt: Salt | None = None) -> bytes:
    """Another endpoint's JSON body without what would steer a transfer, and with its salt."""
    # The name could be hidden behind an escape.
    if salt is None and not any(name.encode() in raw for name in _PARAMS) and b"\\u" not in raw:
        return raw
    return _cleaned(raw, salt)[0]


def steering(raw: bytes) -> str | None:
    """What would steer a transfer in a body that is not JSON, such as a form."""
    return next((name for name in _PARAMS if name.encode() in raw), None)


def _cleaned(raw: bytes, salt: Salt | None) -> tuple[bytes, dict[str, Any]]:
    """What engines get of a body, and its fields."""
    fields = _object(raw)
    changed = _strip(fields)
    own = fields.get(_SALT)
    # What is no text vLLM refuses, with its own words.
    if salt is not None and (own is None or isinstance(own, str)):
        value = salt(own)
        if value is not None and value != own:
            changed |= _SALT in fields
            fields[_SALT] = value
            if not changed:
                return _with(raw, _SALT.encode(), orjson.dumps(value)), fields
    return (orjson.dumps(fields) if changed else raw), fields


def _with(raw: bytes, name: bytes, value: bytes) -> bytes:
    """An object with one more key at its end."""
    head = raw.rstrip()[:-1].rstrip()
    comma = b"" if head == b"{" else b","
    return b'%b%b"%b":%b}' % (head, comma, name, value)


def _object(raw: bytes) -> dict[str, Any]:
    try:
        fields = orjson.loads(raw)
    except ValueError as error:
        raise ProxyError(400, f"the request's body is not valid JSON: {error}") from None
    if not isinstance(fields, dict):
        raise ProxyError(400, "the request's body must be a JSON object")
    return fields


def _strip(fields: dict[str, Any]) -> bool:
    found = False
    for name in _PARAMS:
        found |= fields.pop(name, fields) is not fields
        for carrier in _CARRIERS:
            inner = fields.get(carrier)
            if isinstance(inner, dict) and name in inner:
                del inner[name]
                found = True
    return found
