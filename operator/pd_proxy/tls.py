"""TLS at the data port, with the files of a kubernetes.io/tls Secret."""

import ssl
from pathlib import Path
from typing import Final

from pd_proxy import folder
from pd_proxy.values import ConfigError

CERTIFICATE: Final = "tls.crt"
KEY: Final = "tls.key"


class Tls:
    """The server's side; `load` changes what new connections get, others stay as they are."""

    def __init__(self, path: Path) -> None:
        self._folder = path
        self._files = folder.read(path)
        self.context = _context()
        self.load()

    async def run(self, seconds: float) -> None:
        """Follow the files until cancelled."""
        await folder.follow(self._folder, self._files, lambda _: self.load(), seconds)

    def load(self) -> None:
        """Take the files over; ConfigError where they do not fit, and all stays as it was."""
        _load(_context(), self._folder)
        _load(self.context, self._folder)


def _context() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    return context


def _load(context: ssl.SSLContext, path: Path) -> None:
    try:
        # An encrypted key would make OpenSSL ask for a password at the terminal.
        context.load_cert_chain(path / CERTIFICATE, path / KEY, password="")
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        raise ConfigError(
            f"{path} has no usable {CERTIFICATE} and {KEY}: {error.__class__.__name__}"
        ) from None
