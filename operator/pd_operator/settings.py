"""Settings from the environment, checked at start."""

import logging
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

_NAMESPACE: Final = re.compile("[a-z0-9]([-a-z0-9]*[a-z0-9])?")
_LEVELS: Final = ("debug", "info", "warning", "error")


class SettingsError(Exception):
    """A setting is missing or wrong; `str()` names it and says what is allowed."""


@dataclass(frozen=True)
class Settings:
    """What the operator was installed with; intervals in seconds."""

    namespace: str
    """The operator's own, where its Lease is."""
    pod_name: str
    """Unique among the replicas."""
    watch_namespaces: tuple[str, ...]
    """Empty: all namespaces."""
    proxy_image: str
    mooncake_image: str
    cluster_domain: str
    scaling_interval: float
    resync_interval: float
    log_level: int


def from_environment(environment: Mapping[str, str]) -> Settings:
    """The settings in `PD_…` variables; SettingsError where one is missing or wrong."""
    return Settings(
        namespace=_required(environment, "PD_NAMESPACE"),
        pod_name=_required(environment, "PD_POD_NAME"),
        watch_namespaces=_namespaces(environment),
        proxy_image=_required(environment, "PD_PROXY_IMAGE"),
        mooncake_image=_required(environment, "PD_MOONCAKE_IMAGE"),
        cluster_domain=environment.get("PD_CLUSTER_DOMAIN") or "cluster.local",
        scaling_interval=_seconds(environment, "PD_SCALING_INTERVAL", 15.0),
        resync_interval=_seconds(environment, "PD_RESYNC_INTERVAL", 120.0),
        log_level=_level(environment),
    )


def _required(environment: Mapping[str, str], name: str) -> str:
    value = environment.get(name, "")
    if not value:
        raise SettingsError(f"{name} is not set: the chart sets it")
    return value


def _namespaces(environment: Mapping[str, str]) -> tuple[str, ...]:
    text = environment.get("PD_WATCH_NAMESPACES", "")
    names = tuple(dict.fromkeys(name.strip() for name in text.split(","))) if text else ()
    for name in names:
        if len(name) > 63 or not _NAMESPACE.fullmatch(name):
            raise SettingsError(
                f"PD_WATCH_NAMESPACES={text!r}: write names of namespaces, with a comma between"
            )
    return names


def _seconds(environment: Mapping[str, str], name: str, default: float) -> float:
    text = environment.get(name, "")
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 1.0 <= value <= 86400.0:
        raise SettingsError(f"{name}={text!r}: write seconds from 1 to 86400")
    return value


def _level(environment: Mapping[str, str]) -> int:
    text = (environment.get("PD_LOG_LEVEL") or "info").lower()
    if text not in _LEVELS:
        raise SettingsError(f"PD_LOG_LEVEL={text!r}: write one of {', '.join(_LEVELS)}")
    return logging.getLevelNamesMapping()[text.upper()]
