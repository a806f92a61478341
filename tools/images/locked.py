"""images/<name>/requirements.txt as uv.lock says it."""

from pathlib import Path
from typing import Final

from tools.images.builder import run
from tools.paths import REPOSITORY, uv

EXTRAS: Final = ("operator", "proxy")
"""Images whose packages are an extra of the project."""

_HEADER: Final = "# Made from uv.lock by: python -m tools.images lock\n"


def path(extra: str) -> Path:
    """The committed list of an image."""
    return REPOSITORY / "images" / extra / "requirements.txt"


def export(extra: str) -> str:
    """The list as it should be: every package with its version and hashes."""
    command = [
        *(str(uv()), "export", "--quiet", "--frozen", "--no-dev", "--no-emit-project"),
        *("--no-header", "--no-annotate", "--extra", extra, "--project", str(REPOSITORY)),
    ]
    return _HEADER + run(command, f"uv export of {extra}")


def write() -> None:
    """Write all lists."""
    for extra in EXTRAS:
        path(extra).write_text(export(extra), encoding="utf-8")
