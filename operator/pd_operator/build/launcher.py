"""The launcher's files, which a ConfigMap brings into the engine's image."""

from functools import cache
from importlib import resources
from typing import Final

from pd_operator.api.deployment import PDDeployment
from pd_operator.build import names
from pd_operator.build.hashing import short_hash
from pd_operator.build.manifest import Manifest, child
from pd_shared import labels

PACKAGE: Final = "pd_launch"

FOLDER: Final = f"/etc/pd-launch/{PACKAGE}"
"""Where the ConfigMap is mounted; its keys are the names of the files."""

COMMAND: Final = ("python3", "-I", "-B", FOLDER)
"""Runs the launcher: the user's PYTHON… variables are the engine's alone, and the mount is
read-only. `launch` or `preflight` follows."""

_VOLUME: Final = "launcher"


@cache
def _files() -> tuple[tuple[str, str], ...]:
    found = resources.files(PACKAGE).iterdir()
    return tuple(
        sorted((each.name, each.read_text("utf-8")) for each in found if each.name.endswith(".py"))
    )


def launcher_files() -> dict[str, str]:
    """Name and content of each of the launcher's files, sorted by name."""
    return dict(_files())


@cache
def _digest() -> str:
    return short_hash(launcher_files())


def launcher_name(name: str) -> str:
    """The ConfigMap's name has its content's hash: pods keep the one that they started with."""
    return names.launcher(name, _digest())


def launcher_config_map(deployment: PDDeployment) -> Manifest:
    """The ConfigMap with the launcher's files."""
    return child(
        deployment,
        "v1",
        "ConfigMap",
        launcher_name(deployment.metadata.name),
        labels.ENGINE,
        data=launcher_files(),
        immutable=True,
    )


def launcher_volume(name: str) -> Manifest:
    """The pod's volume with the launcher, for the PDDeployment `name`."""
    return {"name": _VOLUME, "configMap": {"name": launcher_name(name)}}


def launcher_mount() -> Manifest:
    """Where a container of the pod finds the launcher."""
    return {"name": _VOLUME, "mountPath": FOLDER, "readOnly": True}
