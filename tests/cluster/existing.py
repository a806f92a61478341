"""CLUSTER=existing: the cluster that KUBECONFIG names."""

import json
import os
from pathlib import Path
from typing import Final

from tests.cluster import wrappers
from tests.cluster.command import attempt
from tests.cluster.layout import Layout
from tools.stages import UserError, say

WHO: Final = "cluster"


def up(layout: Layout) -> None:
    """Check that the cluster answers."""
    kubeconfig = _kubeconfig()
    layout.state.mkdir(parents=True, exist_ok=True)
    wrappers.write(layout, wrappers.clients(), str(kubeconfig))
    if not _nodes(layout):
        raise UserError(f"the cluster of {kubeconfig} does not answer; try `kubectl get nodes`")
    say(WHO, f"using the cluster of {kubeconfig}")


def down(layout: Layout) -> None:
    """Leave the cluster alone: it was there before."""
    say(WHO, "the cluster is not the tests' own, so it stays")


def status(layout: Layout) -> bool:
    """Print the nodes; whether the cluster answers."""
    _kubeconfig()
    nodes = attempt(str(layout.bin / "kubectl"), "get", "nodes", "-o", "wide")
    print(nodes or "the API server does not answer (or `up` has not run yet)")
    return bool(nodes)


def import_image(layout: Layout, archive: Path) -> None:
    """Tell what to do: nobody but the user can reach the nodes."""
    raise UserError(
        f"a node lacks an image; bring {archive} into every node, for example with "
        f"`ctr -n k8s.io images import {archive.name}` there, and run the command again"
    )


def image_names(layout: Layout) -> frozenset[str]:
    """References of the images that every node has, as the nodes tell it."""
    nodes = json.loads(_nodes(layout) or '{"items": []}')["items"]
    each = [
        {name for image in node["status"].get("images", []) for name in image.get("names") or ()}
        for node in nodes
    ]
    return frozenset(set.intersection(*each)) if each else frozenset()


def _nodes(layout: Layout) -> str:
    return attempt(str(layout.bin / "kubectl"), "get", "nodes", "-o", "json")


def _kubeconfig() -> Path:
    path = os.environ.get("KUBECONFIG")
    if not path or not Path(path).is_file():
        raise UserError("CLUSTER=existing needs KUBECONFIG, the path of a file that is there")
    return Path(path)
