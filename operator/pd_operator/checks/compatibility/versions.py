"""Versions of vLLM as numbers."""

import re
from typing import Final

KNOWN: Final = ("0.32", "0.33")
"""Series of vLLM whose behaviour the rules know."""

PATCHED: Final = "pd"
"""Part of a local version label that says: this build has the cure for two connectors."""

_VERSION: Final = re.compile(r"([0-9]+)\.([0-9]+)\.([0-9]+)(?:\+(.*))?")


def number(version: str | None) -> tuple[int, int, int] | None:
    """Major, minor and patch; None where no version is given."""
    match = _VERSION.fullmatch(version or "")
    return (int(match[1]), int(match[2]), int(match[3])) if match else None


def patched(version: str | None) -> bool:
    """Whether the build says that it has the cure."""
    match = _VERSION.fullmatch(version or "")
    return match is not None and PATCHED in (match[4] or "").split(".")


def known(version: str | None) -> bool:
    """Whether the rules know this version."""
    found = number(version)
    return found is not None and f"{found[0]}.{found[1]}" in KNOWN
