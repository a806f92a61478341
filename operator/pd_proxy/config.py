"""The proxy's configuration file, checked strictly: what is not known is refused."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import orjson

from pd_shared import labels

_KEYS: Final = (
    "deployment", "namespace", "deploymentUid", "servedNames", "connector",
    "listen", "admin", "timeouts", "limits",
)  # fmt: skip


class ConfigError(ValueError):
    """The configuration cannot be used; `str()` names the key and what to do, in one line."""


@dataclass(frozen=True)
class Address:
    """Where a server listens; host "" means all addresses."""

    host: str
    port: int


@dataclass(frozen=True)
class Timeouts:
    """Deadlines of a request's phases, in seconds."""

    connect: float
    """To open a connection to an engine."""
    bootstrap: float
    """For a prefiller's bootstrap server to tell its engine ids."""
    prefill: float
    """From dispatch to the prefiller's answer."""
    first_token: float
    """From arrival to the decoder's first byte."""
    between_tokens: float
    """Between two chunks of the decoder's answer."""


@dataclass(frozen=True)
class Limits:
    """What one client, and all together, can take; sizes in bytes."""

    body_bytes: int
    header_bytes: int
    connections: int
    in_flight: int


@dataclass(frozen=True)
class Config:
    """The file as a whole."""

    deployment: str
    namespace: str
    deployment_uid: str
    served_names: tuple[str, ...]
    listen: Address
    admin: Address
    timeouts: Timeouts
    limits: Limits


def load(path: Path) -> Config:
    """Read the file; ConfigError where it is missing or wrong."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error
    try:
        value = orjson.loads(data)
    except ValueError as error:
        raise ConfigError(f"{path} is not JSON: {error}") from error
    try:
        return parse(value)
    except ConfigError as error:
        raise ConfigError(f"{path}: {error}") from None


def parse(value: Any) -> Config:
    """The configuration in a JSON value; ConfigError names the key that is wrong."""
    top = _section(
        value,
        "",
        _KEYS,
    )
    timeouts = _section(
        top["timeouts"],
        "timeouts",
        ("connect", "bootstrap", "prefill", "firstToken", "betweenTokens"),
    )
    limits = _section(
        top["limits"], "limits", ("bodyBytes", "headerBytes", "connections", "inFlight")
    )
    # How KV moves is said by the pods' own annotation, so that both ways work in a rollout.
    connector = _text(top["connector"], "connector")
    if connector not in labels.CONNECTORS:
        allowed = ", ".join(labels.CONNECTORS)
        raise ConfigError(f"connector is {connector!r}; it must be one of {allowed}")
    return Config(
        deployment=_text(top["deployment"], "deployment"),
        namespace=_text(top["namespace"], "namespace"),
        deployment_uid=_text(top["deploymentUid"], "deploymentUid"),
        served_names=_texts(top["servedNames"], "servedNames"),
        listen=_address(top["listen"], "listen"),
        admin=_address(top["admin"], "admin"),
        timeouts=Timeouts(
            connect=_seconds(timeouts["connect"], "timeouts.connect"),
            bootstrap=_seconds(timeouts["bootstrap"], "timeouts.bootstrap"),
            prefill=_seconds(timeouts["prefill"], "timeouts.prefill"),
            first_token=_seconds(timeouts["firstToken"], "timeouts.firstToken"),
            between_tokens=_seconds(timeouts["betweenTokens"], "timeouts.betweenTokens"),
        ),
        limits=Limits(
            body_bytes=_count(limits["bodyBytes"], "limits.bodyBytes"),
            header_bytes=_count(limits["headerBytes"], "limits.headerBytes"),
            connections=_count(limits["connections"], "limits.connections"),
            in_flight=_count(limits["inFlight"], "limits.inFlight"),
        ),
    )


def _section(value: Any, name: str, keys: tuple[str, ...]) -> Mapping[str, Any]:
    where = f"{name}." if name else ""
    if not isinstance(value, dict):
        raise ConfigError(f"{name or 'the file'} must be an object")
    if unknown := sorted(set(value) - set(keys)):
        raise ConfigError(f"{where}{unknown[0]} is not known; known are {', '.join(keys)}")
    if missing := [key for key in keys if key not in value]:
        raise ConfigError(f"{where}{missing[0]} is missing")
    return value


def _text(value: Any, name: str) -> str:
    if not isinstance(value, str) or not value:
        raise ConfigError(f"{name} must be a text that is not empty")
    return value


def _texts(value: Any, name: str) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise ConfigError(f"{name} must be a list of texts")
    return tuple(_text(item, f"{name}[{index}]") for index, item in enumerate(value))


def _address(value: Any, name: str) -> Address:
    section = _section(value, name, ("host", "port"))
    host, port = section["host"], section["port"]
    if not isinstance(host, str):
        raise ConfigError(f'{name}.host must be a text; "" means all addresses')
    if not isinstance(port, int) or isinstance(port, bool) or not 0 <= port <= 65535:
        raise ConfigError(f"{name}.port must be a number from 0 to 65535")
    return Address(host, port)


def _seconds(value: Any, name: str) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise ConfigError(f"{name} must be a number of seconds above 0")
    return float(value)


def _count(value: Any, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ConfigError(f"{name} must be a whole number above 0")
    return value
