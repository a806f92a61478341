"""Writable folders of containers with a read-only root."""

from typing import Final

from pd_operator.build.manifest import Manifest

TMP: Final = "/tmp"  # noqa: S108 - the path in the container, where an emptyDir is mounted


def tmp_volume() -> Manifest:
    """The pod's scratch space; it outlives a restarted container."""
    return {"name": "tmp", "emptyDir": {}}


def tmp_mount() -> Manifest:
    """The scratch space at /tmp."""
    return {"name": "tmp", "mountPath": TMP}
