"""containerd's own client: images into the node, and containers that a killed run left."""

import subprocess
from collections.abc import Collection
from pathlib import Path
from typing import Final

from tests.cluster.layout import Layout
from tools.stages import UserError

_NAMESPACE: Final = "k8s.io"


def ctr(layout: Layout, *arguments: str, timeout: float = 600) -> str:
    """What containerd's client printed; UserError with its last words where it failed."""
    if not layout.socket.is_socket():
        raise UserError("containerd does not run; start the cluster with `make cluster-up`")
    try:
        done = subprocess.run(
            ["ctr", "-a", str(layout.socket), "-n", _NAMESPACE, *arguments],
            capture_output=True,
            text=True,
            check=False,
            timeout=timeout,
        )
    except subprocess.TimeoutExpired:
        raise UserError(
            f"containerd did not answer `{' '.join(arguments[:2])}` in {timeout:.0f} s; "
            f"see {layout.log('containerd')}"
        ) from None
    if done.returncode != 0:
        why = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise UserError(f"containerd: `{' '.join(arguments[:2])}` failed: {why}")
    return done.stdout


def answers(layout: Layout) -> bool:
    """Whether containerd serves."""
    try:
        ctr(layout, "version", timeout=10)
    except UserError:
        return False
    return True


def remove_containers(layout: Layout) -> bool:
    """Forget all containers, whose processes are gone, with their file systems; whether any were.

    The kubelet's interface has read its own list at containerd's start: start it anew after this.
    """
    names = ctr(layout, "containers", "list", "-q").split()
    if names:
        ctr(layout, "containers", "delete", *names)
    return bool(names)


def remove_stale_images(layout: Layout, current: Collection[str]) -> None:
    """Remove the project's images that are not the current ones; each build leaves some behind."""
    stale = [name for name in sorted(image_names(layout)) if is_stale(name, current)]
    if stale:
        ctr(layout, "images", "delete", *stale)


def is_stale(name: str, current: Collection[str]) -> bool:
    """Whether an image is of the project, has a successor, and is not the current one."""
    repository, _, tag = name.rpartition(":")
    succeeded = any(other.rpartition(":")[0] == repository for other in current)
    return succeeded and tag != "dev" and name not in current


def import_image(layout: Layout, archive: Path) -> None:
    """Bring the images of a docker-archive into the node."""
    ctr(layout, "images", "import", "--snapshotter", "overlayfs", str(archive))


def image_names(layout: Layout) -> frozenset[str]:
    """References of the images that the node has."""
    return frozenset(ctr(layout, "images", "list", "-q").split())
