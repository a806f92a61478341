"""The launcher's files, which a ConfigMap brings into the engine's image."""

from functools import cache
from importlib import resources
from typing import Final

PACKAGE: Final = "pd_launch"

FOLDER: Final = f"/etc/pd-launch/{PACKAGE}"
"""Where the ConfigMap is mounted; its keys are the names of the files."""

COMMAND: Final = ("python3", "-I", "-B", FOLDER)
"""Runs the launcher: the user's PYTHON… variables are the engine's alone, and the mount is
read-only. `launch` or `preflight` follows."""


@cache
def _files() -> tuple[tuple[str, str], ...]:
    found = resources.files(PACKAGE).iterdir()
    return tuple(
        sorted((each.name, each.read_text("utf-8")) for each in found if each.name.endswith(".py"))
    )


def launcher_files() -> dict[str, str]:
    """Name and content of each of the launcher's files, sorted by name."""
    return dict(_files())
