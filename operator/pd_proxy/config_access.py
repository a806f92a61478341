"""The sections `apiKeys` and `tls` of the configuration file."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pd_proxy import values


@dataclass(frozen=True)
class ApiKeys:
    """Who may come; each file of the folder is a tenant, each of its lines a key."""

    folder: Path
    isolate_cache: bool
    """Whether no tenant shares KV with another one."""


@dataclass(frozen=True)
class TlsFiles:
    """The folder has `tls.crt` and `tls.key`."""

    folder: Path


def parse_keys(value: Any) -> ApiKeys:
    """The section; ConfigError names the key that is wrong."""
    given = values.section(value, "apiKeys", ("folder", "isolateCache"))
    return ApiKeys(
        folder=Path(values.text(given["folder"], "apiKeys.folder")),
        isolate_cache=values.flag(given["isolateCache"], "apiKeys.isolateCache"),
    )


def parse_tls(value: Any) -> TlsFiles:
    """The section; ConfigError names the key that is wrong."""
    given = values.section(value, "tls", ("folder",))
    return TlsFiles(Path(values.text(given["folder"], "tls.folder")))
