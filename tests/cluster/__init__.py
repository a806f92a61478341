"""The Kubernetes that tests and demo run on.

CLUSTER in the environment chooses it: `local` (or nothing) the one that this package builds and
runs, `kind` one in Docker, `existing` the one that KUBECONFIG names.
"""

from pathlib import Path
from typing import Final, Protocol

from tests.cluster import choice, existing, kind, local
from tests.cluster.layout import Layout
from tests.cluster.simulated import GPU_NODE, simulated_nodes
from tools.stages import UserError

__all__ = [
    "GPU_NODE",
    "LAYOUT",
    "down",
    "image_names",
    "import_image",
    "simulated_nodes",
    "status",
    "up",
]

LAYOUT: Final = Layout()


class Backend(Protocol):
    """A way to have a cluster; each may raise UserError."""

    def up(self, layout: Layout) -> None: ...
    def down(self, layout: Layout) -> None: ...
    def status(self, layout: Layout) -> bool: ...
    def import_image(self, layout: Layout, archive: Path) -> None: ...
    def image_names(self, layout: Layout) -> frozenset[str]: ...


_BACKENDS: Final[dict[choice.Kind, Backend]] = {
    choice.Kind.LOCAL: local,
    choice.Kind.KIND: kind,
    choice.Kind.EXISTING: existing,
}


def _backend() -> Backend:
    return _BACKENDS[choice.chosen()]


def up() -> None:
    """Bring the cluster up if it is not; raises UserError."""
    _backend().up(LAYOUT)


def down() -> None:
    """Take the cluster down; raises UserError."""
    _backend().down(LAYOUT)


def status() -> bool:
    """Print what runs; whether the cluster is usable."""
    return _backend().status(LAYOUT)


def import_image(archive: Path) -> None:
    """Bring a docker-archive's images into the node; raises UserError."""
    if not archive.is_file():
        raise UserError(f"there is no image archive {archive}")
    _backend().import_image(LAYOUT, archive)


def image_names() -> frozenset[str]:
    """References of the images that the node has."""
    return _backend().image_names(LAYOUT)
