"""Backends from a file: for use without Kubernetes."""

import asyncio
from pathlib import Path
from typing import Any, Final

import orjson

from pd_proxy.backends import DRAINING, READY, UNREADY, Backends, Pod
from pd_proxy.config import ConfigError
from pd_proxy.log import log
from pd_shared import labels, ports

_POLL_SECONDS: Final = 0.5
_KEYS: Final = (
    "name", "tier", "host", "port", "bootstrapPort", "pairing", "uid", "incarnation", "state",
    "connector",
)  # fmt: skip


def read_file(path: Path) -> tuple[Pod, ...]:
    """The backends in a file; ConfigError names what is wrong.

    A JSON list of objects with `name`, `tier` (prefiller or decoder) and `host`, and, where
    needed, `port`, `bootstrapPort`, `pairing`, `uid`, `incarnation`, `state` and
    `connector`.
    """
    try:
        value = orjson.loads(path.read_bytes())
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ConfigError(f"{path} is not JSON: {error}") from error
    if not isinstance(value, list):
        raise ConfigError(f"{path} must be a list of backends")
    pods = tuple(_read(item, f"{path}: backend {index}") for index, item in enumerate(value))
    if len({pod.uid for pod in pods}) != len(pods):
        raise ConfigError(f"{path}: two backends have the same uid or name")
    return pods


async def follow_file(path: Path, backends: Backends) -> None:
    """Keep the table as the file says, until cancelled; a broken file changes nothing."""
    seen: object = None
    while True:
        try:
            found = path.stat()  # noqa: ASYNC240 - a local file; a thread would cost more
            mark = (found.st_mtime_ns, found.st_size, found.st_ino)
            if mark != seen:
                seen = mark
                backends.update(read_file(path))
        except (ConfigError, OSError) as error:
            log("warning", "backends not read", error=str(error))
        await asyncio.sleep(_POLL_SECONDS)


def _read(item: Any, where: str) -> Pod:
    if not isinstance(item, dict):
        raise ConfigError(f"{where} must be an object")
    if unknown := sorted(set(item) - set(_KEYS)):
        raise ConfigError(f"{where}: {unknown[0]} is not known; known are {', '.join(_KEYS)}")
    for key in ("name", "tier", "host"):
        if not isinstance(item.get(key), str) or not item[key]:
            raise ConfigError(f"{where}: {key} must be a text that is not empty")
    if item["tier"] not in (labels.PREFILLER, labels.DECODER):
        raise ConfigError(f"{where}: tier must be {labels.PREFILLER} or {labels.DECODER}")
    state = item.get("state", READY)
    if state not in (READY, DRAINING, UNREADY):
        raise ConfigError(f"{where}: state must be {READY}, {DRAINING} or {UNREADY}")
    return Pod(
        uid=str(item.get("uid", item["name"])),
        name=item["name"],
        tier=item["tier"],
        pairing=str(item.get("pairing", "")),
        host=item["host"],
        port=_port(item.get("port", ports.HTTP), where),
        bootstrap_port=_port(item.get("bootstrapPort", ports.BOOTSTRAP), where),
        incarnation=str(item.get("incarnation", "1")),
        state=state,
        connector=str(item.get("connector", labels.MOONCAKE_CONNECTOR)),
    )


def _port(value: Any, where: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 < value < 65536:
        raise ConfigError(f"{where}: a port must be a number from 1 to 65535")
    return value
