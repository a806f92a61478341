"""The Kubernetes that tests and demo run on: a local one, kind's, or one that exists."""

from pathlib import Path
from typing import Final

from tests.cluster import containers, local
from tests.cluster.layout import Layout

LAYOUT: Final = Layout()


def up() -> None:
    """Bring the cluster up if it is not; raises UserError."""
    local.up(LAYOUT)


def down() -> None:
    """Take the cluster down; raises UserError."""
    local.down(LAYOUT)


def status() -> bool:
    """Print what runs; whether the cluster is usable."""
    return local.status(LAYOUT)


def import_image(archive: Path) -> None:
    """Bring a docker-archive's images into the node; raises UserError."""
    containers.import_image(LAYOUT, archive)


def image_names() -> frozenset[str]:
    """References of the images that the node has."""
    return containers.image_names(LAYOUT)
