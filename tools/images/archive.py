"""Archives of built images in the cache: <name>-<tag>.tar, the last few of each name."""

import io
import json
import os
import tarfile
from pathlib import Path
from typing import Final

from tools.paths import cache

KEPT: Final = 3
"""Archives of one name that stay in the cache."""


def folder() -> Path:
    """Where the archives are."""
    return cache() / "images"


def path(name: str, tag: str) -> Path:
    """The archive of an image, whether it exists or not."""
    return folder() / f"{name}-{tag}.tar"


def exists(name: str, tag: str) -> bool:
    """Whether the archive is there; marks it as used, so that it is pruned last."""
    try:
        os.utime(path(name, tag))
    except FileNotFoundError:
        return False
    return True


def prune(name: str) -> list[str]:
    """Remove all but the last used archives of a name; the tags of those removed."""
    # A tag has 12 digits: base-*.tar must not match base-other-*.tar.
    found = sorted(
        folder().glob(f"{name}-{'?' * 12}.tar"), key=lambda each: each.stat().st_mtime, reverse=True
    )
    for each in found[KEPT:]:
        each.unlink()
    return [each.stem.removeprefix(f"{name}-") for each in found[KEPT:]]


def add_name(archive: Path, name: str) -> None:
    """Give the one image of a docker-archive a further name.

    A manifest is appended; readers of a tar take the last of equal members.
    """
    with tarfile.open(archive) as tar:
        member = tar.extractfile("manifest.json")
        if member is None:
            raise ValueError(f"{archive} is no docker-archive")
        manifest = json.loads(member.read())
    manifest[0]["RepoTags"].append(name)
    content = json.dumps(manifest).encode()
    header = tarfile.TarInfo("manifest.json")
    header.size = len(content)
    header.mode = 0o644
    with tarfile.open(archive, "a") as tar:
        tar.addfile(header, io.BytesIO(content))
