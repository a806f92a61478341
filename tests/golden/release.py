"""What a release made of a few examples: `python -m tests.golden.release VERSION` writes it.

The folders stay for ever: a later release must adopt what is in them (`pd_operator/adopt.py`).
"""

import sys
from pathlib import Path
from typing import Any, Final

import yaml

from pd_operator.api.deployment import PDDeployment, parse
from pd_operator.build import Manifest
from tests.golden import update

FOLDER: Final = update.FOLDER / "releases"
EXAMPLES: Final = (
    "colocated-cpu", "h100-rdma", "mooncake-store-cpu", "moe-wide-ep", "nixl-rdma", "store",
    "tiny-cpu",
)  # fmt: skip
"""Enough to have each kind of engine pod once."""


def releases() -> list[str]:
    """Versions whose children are kept."""
    return sorted(path.name for path in FOLDER.iterdir() if path.is_dir())


def kept(version: str) -> dict[str, tuple[PDDeployment, list[Manifest]]]:
    """By example: the deployment as it was, and the StatefulSets that the release made of it."""
    return {path.stem: _read(path) for path in sorted((FOLDER / version).glob("*.yaml"))}


def _read(path: Path) -> tuple[PDDeployment, list[Manifest]]:
    first, *sets = yaml.safe_load_all(path.read_text("utf-8"))
    return parse(first), sets


def _write(version: str, name: str) -> None:
    manifest: dict[str, Any] = yaml.safe_load((update.EXAMPLES / f"{name}.yaml").read_text("utf-8"))
    manifest["metadata"] |= {"namespace": update.NAMESPACE, "uid": update.UID, "generation": 1}
    sets = [m for m in update.children(parse(manifest)) if m["kind"] == "StatefulSet"]
    path = FOLDER / version / f"{name}.yaml"
    path.parent.mkdir(parents=True, exist_ok=True)
    header = f"# Children of release {version}; never written again.\n---\n"
    path.write_text(header + yaml.safe_dump_all([manifest, *sets], sort_keys=False, width=1000))


if __name__ == "__main__":
    for each in EXAMPLES:
        _write(sys.argv[1], each)
