"""What each image is made of, and the tag that follows from it. Pure but for reading files."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

REGISTRY: Final = "localhost/pd-operator"
PYTHON_BASE: Final = "python:3.11-slim-bookworm"
"""The Dockerfiles' own default base, used where Docker builds."""

_SKIPPED_FOLDERS: Final = frozenset({"__pycache__"})
_SKIPPED_SUFFIXES: Final = frozenset({".pyc", ".dockerignore"})
"""A context made on purpose has nothing that Docker should be told to leave out."""


@dataclass(frozen=True)
class Recipe:
    """One image: `sources` are the files and folders of the checkout that its build reads."""

    name: str
    sources: tuple[str, ...]
    packages: bool = False
    """Whether images/<name>/requirements.txt is installed into it."""
    on_base: bool = True
    """Whether it stands on the project's base image (else on nothing)."""
    space: int = 2 << 30
    """Bytes that the file system must have free before a build."""


def _python(name: str, *packages: str, space: int = 2 << 30) -> Recipe:
    own = tuple(f"operator/{package}" for package in packages)
    shared = ("images/install.sh", "images/system.sh")
    return Recipe(name, (f"images/{name}", *shared, *own), packages=True, space=space)


RECIPES: Final[Mapping[str, Recipe]] = {
    recipe.name: recipe
    for recipe in (
        Recipe("base", ("images/base",), on_base=False),
        Recipe("pause", ("images/pause",), on_base=False, space=64 << 20),
        _python("operator", "pd_shared", "pd_operator", "pd_launch"),
        _python("proxy", "pd_shared", "pd_proxy"),
        _python("mooncake"),
        _python("engine-cpu", space=6 << 30),
        Recipe(
            "engine-sim",
            ("images/engine-sim", "images/system.sh", "operator/pd_shared", "tests/engine_sim"),
        ),
    )
}


def files(root: Path, sources: Iterable[str]) -> list[Path]:
    """Every file below the sources, relative to `root`, sorted; bytecode left out."""
    found: set[Path] = set()
    for source in sources:
        path = root / source
        inside = path.rglob("*") if path.is_dir() else [path]
        found.update(each.relative_to(root) for each in inside if each.is_file())
    return sorted(
        path
        for path in found
        if path.suffix not in _SKIPPED_SUFFIXES and not _SKIPPED_FOLDERS.intersection(path.parts)
    )


def digest(root: Path, sources: Iterable[str], facts: Iterable[str] = ()) -> str:
    """12 hex digits over names, permissions to run and contents of the files, and over `facts`.

    Facts are what the build reads from elsewhere, as text: the base's reference, a wheel's size.
    """
    total = hashlib.sha256()
    for path in files(root, sources):
        content = (root / path).read_bytes()
        runs = bool((root / path).stat().st_mode & 0o100)
        total.update(f"{path}\0{runs}\0{hashlib.sha256(content).hexdigest()}\n".encode())
    for fact in facts:
        total.update(f"fact\0{fact}\n".encode())
    return total.hexdigest()[:12]


def reference(name: str, tag: str) -> str:
    """The full reference of one of the project's images."""
    return f"{REGISTRY}/{name}:{tag}"
