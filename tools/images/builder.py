"""The programs that build images: buildah on this machine, or Docker where a daemon answers."""

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, Protocol

from tools.images.archive import add_name
from tools.packages import ensure
from tools.paths import REPOSITORY, cache
from tools.stages import UserError

TAIL: Final = 20
"""Lines of a failed command's output that its error shows."""


def run(command: Sequence[str], what: str, environment: Mapping[str, str] | None = None) -> str:
    """What the command printed; UserError with its last lines where it failed."""
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        stdin=subprocess.DEVNULL,
        close_fds=False,  # the lock: what outlives a killed command must keep others out
        cwd=REPOSITORY,  # uv reads its settings there, such as exclude-newer
        env={**os.environ, **(environment or {})},
    )
    if done.returncode != 0:
        lines = (done.stdout + done.stderr).splitlines()[-TAIL:]
        raise UserError("\n".join([f"{what} failed; its last lines:", *lines]))
    return done.stdout


class Builder(Protocol):
    """What a build needs of Docker or buildah."""

    debian: bool
    """Whether images stand on the base that the project makes itself."""

    def has(self, reference: str) -> bool:
        """Whether an image of that name is in the builder's own store."""

    def build(self, context: Path, dockerfile: str, tag: str, base: str | None) -> None:
        """Build an image; `base` replaces the Dockerfile's default."""

    def save(self, reference: str, also: str, archive: Path) -> None:
        """Write a docker-archive that holds the image under both names."""

    def load(self, archive: Path) -> None:
        """Take an image from an archive into the builder's own store."""

    def forget(self, reference: str) -> None:
        """Remove an image from the builder's own store, if it is there."""


class Docker:
    """Docker with BuildKit."""

    debian = False

    def has(self, reference: str) -> bool:
        """Whether an image of that name is in the daemon's store."""
        command = ["docker", "image", "inspect", reference]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    def build(self, context: Path, dockerfile: str, tag: str, base: str | None) -> None:
        """Build an image; `base` replaces the Dockerfile's default."""
        options = ["--build-arg", f"BASE={base}"] if base else []
        command = ["docker", "build", "-q", "-t", tag, "-f", str(context / dockerfile), *options]
        run([*command, str(context)], f"docker build of {tag}", {"DOCKER_BUILDKIT": "1"})

    def save(self, reference: str, also: str, archive: Path) -> None:
        """Write a docker-archive that holds the image under both names."""
        run(["docker", "tag", reference, also], "docker tag")
        run(["docker", "save", "-o", str(archive), reference, also], "docker save")

    def load(self, archive: Path) -> None:
        """Take an image from an archive into the daemon's store."""
        run(["docker", "load", "-q", "-i", str(archive)], "docker load")

    def forget(self, reference: str) -> None:
        """Remove an image from the daemon's store, if it is there."""
        subprocess.run(["docker", "rmi", "-f", reference], capture_output=True, check=False)


class Buildah:
    """buildah as root, in a store of its own below the cache."""

    debian = True

    def __init__(self, store: Path) -> None:
        self._command = [
            *("buildah", "--root", str(store / "storage"), "--runroot", str(store / "run")),
            *("--storage-driver", "overlay"),
        ]

    def _run(self, *arguments: str, what: str) -> str:
        # Chroot isolation needs no namespaces, which containers often refuse.
        return run([*self._command, *arguments], what, {"BUILDAH_ISOLATION": "chroot"})

    def has(self, reference: str) -> bool:
        """Whether an image of that name is in the store."""
        command = [*self._command, "inspect", "--type", "image", reference]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    def build(self, context: Path, dockerfile: str, tag: str, base: str | None) -> None:
        """Build an image; `base` replaces the Dockerfile's default."""
        options = ["--build-arg", f"BASE={base}"] if base else []
        self._run(
            *("bud", "--pull=false", "-t", tag, "-f", str(context / dockerfile)),
            *(*options, str(context)),
            what=f"build of {tag}",
        )

    def save(self, reference: str, also: str, archive: Path) -> None:
        """Write a docker-archive that holds the image under both names."""
        self._run("push", reference, f"docker-archive:{archive}:{reference}", what="archiving")
        add_name(archive, also)

    def load(self, archive: Path) -> None:
        """Take an image from an archive into the store."""
        self._run("pull", "-q", f"docker-archive:{archive}", what=f"reading {archive.name}")

    def forget(self, reference: str) -> None:
        """Remove an image from the store, if it is there."""
        command = [*self._command, "rmi", "-f", reference]
        subprocess.run(command, capture_output=True, check=False)

    def clear(self) -> None:
        """Remove what a killed build left: working containers and their mounts."""
        subprocess.run([*self._command, "rm", "--all"], capture_output=True, check=False)


def _docker_answers() -> bool:
    if shutil.which("docker") is None:
        return False
    command = ["docker", "version", "--format", "{{.Server.Version}}"]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def choose() -> Builder:
    """Docker where its daemon answers, else buildah; BUILDER=docker|buildah forces one.

    Raises UserError where neither can be had.
    """
    wanted = os.environ.get("BUILDER", "")
    if wanted not in ("", "docker", "buildah"):
        raise UserError(f"BUILDER={wanted} is not known; it can be docker or buildah")
    if wanted != "buildah" and _docker_answers():
        return Docker()
    if wanted == "docker":
        raise UserError("BUILDER=docker, but no Docker daemon answers; start it, or unset BUILDER")
    return Buildah(cache() / "images" / "store")


def prepare(builder: Builder) -> None:
    """Make sure that the builder can work; UserError where it cannot."""
    if isinstance(builder, Buildah):
        if os.geteuid() != 0:
            raise UserError("building images needs root here, or a running Docker; use sudo")
        ensure(
            ["buildah", "mmdebstrap", "busybox-static", "debian-archive-keyring", "binutils"],
        )
        builder.clear()
