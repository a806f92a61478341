"""The body of a completion request, as far as the proxy must understand it."""

from dataclasses import dataclass
from typing import Any, Final

import orjson

from pd_proxy.errors import ProxyError

_KV_PARAMS: Final = "kv_transfer_params"
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
        head = self.raw.rstrip()[:-1].rstrip()
        comma = b"" if head == b"{" else b","
        return b'%b%b"kv_transfer_params":%b}' % (head, comma, params)


def completion(raw: bytes, chat: bool) -> Completion:
    """Read a body; ProxyError 400 where it is no JSON object."""
    fields = _object(raw)
    stripped = _strip(fields)
    if stripped:
        raw = orjson.dumps(fields)
    return Completion(raw, fields, chat, fields.get("stream") is True)


def harmless(raw: bytes) -> bytes:
    """Another endpoint's JSON body without what would steer a KV transfer."""
    # The name could be hidden behind an escape.
    if _KV_PARAMS.encode() not in raw and b"\\u" not in raw:
        return raw
    fields = _object(raw)
    return orjson.dumps(fields) if _strip(fields) else raw


def _object(raw: bytes) -> dict[str, Any]:
    try:
        fields = orjson.loads(raw)
    except ValueError as error:
        raise ProxyError(400, f"the request's body is not valid JSON: {error}") from None
    if not isinstance(fields, dict):
        raise ProxyError(400, "the request's body must be a JSON object")
    return fields


def _strip(fields: dict[str, Any]) -> bool:
    found = fields.pop(_KV_PARAMS, fields) is not fields
    for carrier in _CARRIERS:
        inner = fields.get(carrier)
        if isinstance(inner, dict) and _KV_PARAMS in inner:
            del inner[_KV_PARAMS]
            found = True
    return found
