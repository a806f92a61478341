"""The proxy's configuration file, checked strictly: what is not known is refused."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import orjson

from pd_proxy import config_access, config_queue, values
from pd_proxy.config_access import ApiKeys, TlsFiles
from pd_proxy.config_queue import Queue
from pd_proxy.values import ConfigError

__all__ = ["Address", "Config", "ConfigError", "Limits", "Timeouts", "load", "parse"]

_KEYS: Final = (
    "deployment", "namespace", "deploymentUid", "servedNames",
    "listen", "admin", "timeouts", "limits", "routing",
)  # fmt: skip
_SECTIONS: Final = ("queue", "apiKeys", "tls", "accessLog")
"""What is not in the file is not done."""


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
    kv_wait: float = 60.0
    """From the prefiller's answer to the first byte of a decoder's stream."""
    drain: float = 120.0
    """For requests in flight to end, after SIGTERM."""


@dataclass(frozen=True)
class Limits:
    """What one client, and all together, can take; sizes in bytes."""

    body_bytes: int
    header_bytes: int
    connections: int
    in_flight: int


@dataclass(frozen=True)
class Routing:
    """How pods are chosen."""

    prefix_aware: bool
    """Whether prompts with a common beginning meet the same prefiller."""
    session_header: str
    """In lower case; requests with the same value meet the same pods."""
    local_prefill: bool
    """Whether decoders compute prompts themselves where that is sooner done."""
    local_prefill_tokens: int
    """Tokens that a decoder computes itself at most."""


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
    routing: Routing
    queue: Queue = field(default=Queue())
    api_keys: ApiKeys | None = None
    tls: TlsFiles | None = None
    access_log: bool = False
    """Whether each request is a line on standard output."""


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
    top = values.section(value, "", _KEYS, _SECTIONS)
    routing = values.section(
        top["routing"], "routing", ("prefixAware", "sessionHeader", "localPrefill")
    )
    local = values.section(
        routing["localPrefill"], "routing.localPrefill", ("enabled", "maxTokens")
    )
    return Config(
        deployment=values.text(top["deployment"], "deployment"),
        namespace=values.text(top["namespace"], "namespace"),
        deployment_uid=values.text(top["deploymentUid"], "deploymentUid"),
        served_names=values.texts(top["servedNames"], "servedNames"),
        listen=_address(top["listen"], "listen"),
        admin=_address(top["admin"], "admin"),
        timeouts=_timeouts(top["timeouts"]),
        limits=_limits(top["limits"]),
        queue=config_queue.parse(top["queue"]) if "queue" in top else Queue(),
        api_keys=config_access.parse_keys(top["apiKeys"]) if "apiKeys" in top else None,
        access_log=values.flag(top.get("accessLog", False), "accessLog"),
        tls=config_access.parse_tls(top["tls"]) if "tls" in top else None,
        routing=Routing(
            prefix_aware=values.flag(routing["prefixAware"], "routing.prefixAware"),
            session_header=values.text(routing["sessionHeader"], "routing.sessionHeader").lower(),
            local_prefill=values.flag(local["enabled"], "routing.localPrefill.enabled"),
            local_prefill_tokens=values.count(local["maxTokens"], "routing.localPrefill.maxTokens"),
        ),
    )


def _timeouts(value: Any) -> Timeouts:
    keys = ("connect", "bootstrap", "prefill", "firstToken", "betweenTokens")
    given = values.section(value, "timeouts", keys, ("kvWait", "drain"))
    seconds = {key: values.seconds(item, f"timeouts.{key}") for key, item in given.items()}
    return Timeouts(
        connect=seconds["connect"],
        bootstrap=seconds["bootstrap"],
        prefill=seconds["prefill"],
        first_token=seconds["firstToken"],
        between_tokens=seconds["betweenTokens"],
        kv_wait=seconds.get("kvWait", Timeouts.kv_wait),
        drain=seconds.get("drain", Timeouts.drain),
    )


def _limits(value: Any) -> Limits:
    keys = ("bodyBytes", "headerBytes", "connections", "inFlight")
    given = values.section(value, "limits", keys)
    return Limits(*(values.count(given[key], f"limits.{key}") for key in keys))


def _address(value: Any, name: str) -> Address:
    section = values.section(value, name, ("host", "port"))
    host, port = section["host"], section["port"]
    if not isinstance(host, str):
        raise ConfigError(f'{name}.host must be a text; "" means all addresses')
    if not isinstance(port, int) or isinstance(port, bool) or not 0 <= port <= 65535:
        raise ConfigError(f"{name}.port must be a number from 0 to 65535")
    return Address(host, port)
