"""API keys: who a client is, by the key that it brings; pure.

Keys are kept as digests only, made with a secret of the process, so that neither memory nor the
time of a comparison tells anything of a key.
"""

import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from pd_proxy.errors import ProxyError
from pd_proxy.http.headers import Headers

OPEN: Final = frozenset((b"/health", b"/ping"))
"""Paths that are served without a key: they tell load balancers that somebody is there."""

_MISSING: Final = "an API key is required: Authorization: Bearer KEY"
_WRONG: Final = "the API key is not valid"
_CHALLENGE: Final = b"www-authenticate: Bearer\r\n"
_SALT: Final = b"pd-proxy cache salt "


@dataclass(frozen=True, slots=True)
class Keyring:
    """All keys of a moment."""

    secret: bytes = field(repr=False)
    tenants: Mapping[bytes, str] = field(repr=False)
    """By a key's digest."""
    salts: Mapping[str, bytes] = field(repr=False)
    """By tenant: what its cache salt is made from, the same in every pod of the proxy."""


def keyring(files: Mapping[str, bytes], secret: bytes) -> Keyring:
    """The keys in files: a file is a tenant, each of its lines a key of it.

    A key of two tenants is the first one's, in the order of their names.
    """
    tenants: dict[bytes, str] = {}
    salts: dict[str, bytes] = {}
    for tenant in sorted(files):
        keys = [line.strip() for line in files[tenant].splitlines() if line.strip()]
        for key in keys:
            tenants.setdefault(_digest(key, secret), tenant)
        if keys:
            salts[tenant] = hmac.digest(keys[0], _SALT + tenant.encode(), "sha256")
    return Keyring(secret, tenants, salts)


def check(ring: Keyring, path: bytes, headers: Headers) -> str | ProxyError:
    """The tenant that a request is of, "" for a path that is open to all; or the 401."""
    key = presented(headers)
    if key is None:
        return "" if path in OPEN else ProxyError(401, _MISSING, _CHALLENGE)
    tenant = ring.tenants.get(_digest(key, ring.secret))
    return ProxyError(401, _WRONG, _CHALLENGE) if tenant is None else tenant


def presented(headers: Headers) -> bytes | None:
    """The key that a request brings: OpenAI's way, or Anthropic's."""
    for name, value in headers:
        if name == b"authorization":
            scheme, _, key = value.strip().partition(b" ")
            if scheme.lower() == b"bearer" and key:
                return key.strip()
        elif name == b"x-api-key" and value:
            return value.strip()
    return None


def salt(ring: Keyring, tenant: str, own: str | None) -> str | None:
    """A request's cache salt; `own` is the client's, which keeps parts of a tenant apart.

    In hexadecimal digits: vLLM takes 128 characters, and not all of them.
    """
    base = ring.salts.get(tenant)
    if base is None:
        return None
    return base.hex() if own is None else hmac.digest(base, own.encode(), "sha256").hex()


def _digest(key: bytes, secret: bytes) -> bytes:
    return hashlib.blake2b(key, key=secret, digest_size=32).digest()
