"""Where things are: the checkout, the cache that all checkouts share, what a build leaves."""

import os
from pathlib import Path
from typing import Final

REPOSITORY: Final = Path(__file__).resolve().parent.parent
BUILD: Final = REPOSITORY / "build"
CLUSTER: Final = REPOSITORY / ".cluster"
"""State of the local Kubernetes; see tests/cluster."""


def cache() -> Path:
    """The folder for what is costly to make, by content, outside of any checkout."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "pd-operator"


def uv() -> Path:
    """The newest uv that tools/bootstrap.sh left in the cache."""
    found = sorted(cache().glob("uv-*/bin/uv"), key=lambda path: path.stat().st_mtime)
    if not found:
        raise FileNotFoundError("uv is not in the cache; run tools/bootstrap.sh")
    return found[-1]
