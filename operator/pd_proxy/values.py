"""Checked values of the configuration file: what is not as it should be is refused."""

from collections.abc import Mapping
from typing import Any


class ConfigError(ValueError):
    """The configuration cannot be used; `str()` names the key and what to do, in one line."""


def section(
    value: Any, name: str, keys: tuple[str, ...], optional: tuple[str, ...] = ()
) -> Mapping[str, Any]:
    """An object with all of these keys and any of the optional ones; `name` "" is the file."""
    where = f"{name}." if name else ""
    if not isinstance(value, dict):
        raise ConfigError(f"{name or 'the file'} must be an object")
    known = (*keys, *optional)
    if unknown := sorted(set(value) - set(known)):
        raise ConfigError(f"{where}{unknown[0]} is not known; known are {', '.join(known)}")
    if missing := [key for key in keys if key not in value]:
        raise ConfigError(f"{where}{missing[0]} is missing")
    return value


def text(value: Any, name: str) -> str:
    """A text that is not empty."""
    if not isinstance(value, str) or not value:
        raise ConfigError(f"{name} must be a text that is not empty")
    return value


def texts(value: Any, name: str) -> tuple[str, ...]:
    """A list of texts that are not empty."""
    if not isinstance(value, list):
        raise ConfigError(f"{name} must be a list of texts")
    return tuple(text(item, f"{name}[{index}]") for index, item in enumerate(value))


def flag(value: Any, name: str) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise ConfigError(f"{name} must be true or false")
    return value


def seconds(value: Any, name: str) -> float:
    """A number of seconds above 0."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise ConfigError(f"{name} must be a number of seconds above 0")
    return float(value)


def count(value: Any, name: str, least: int = 1) -> int:
    """A whole number of at least `least`."""
    if isinstance(value, bool) or not isinstance(value, int) or value < least:
        raise ConfigError(f"{name} must be a whole number above {least - 1}")
    return value
