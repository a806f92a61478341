"""Who may come in, and whose request one is: the edge around `keys`."""

import secrets
from typing import Final

from pd_proxy import folder, keys
from pd_proxy.config_access import ApiKeys
from pd_proxy.errors import ProxyError
from pd_proxy.folder import Files
from pd_proxy.http.headers import Headers

_SECRET_BYTES: Final = 32


class Access:
    """The keys in a mounted Secret, as they are now; ConfigError where there is no folder."""

    def __init__(self, settings: ApiKeys, seconds: float = folder.POLL_SECONDS) -> None:
        self._settings = settings
        self._seconds = seconds
        self._secret = secrets.token_bytes(_SECRET_BYTES)
        self._files = folder.read(settings.folder)
        self._ring = keys.keyring(self._files, self._secret)

    async def run(self) -> None:
        """Follow the files until cancelled."""
        await folder.follow(self._settings.folder, self._files, self._take, self._seconds)

    def check(self, method: bytes, path: bytes, headers: Headers) -> str | ProxyError:
        """The tenant of a request whose head has come, or why it is refused."""
        if method == b"OPTIONS":
            return ""  # a browser asks without a key whether it may come with one
        return keys.check(self._ring, path, headers)

    def salt(self, tenant: str, own: str | None) -> str | None:
        """The cache salt of a tenant's request; None where it gets none."""
        if not self._settings.isolate_cache:
            return own
        return keys.salt(self._ring, tenant, own)

    def _take(self, files: Files) -> None:
        self._ring = keys.keyring(files, self._secret)
