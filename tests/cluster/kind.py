"""CLUSTER=kind: a cluster in Docker, for machines that have it."""

import json
import shutil
from pathlib import Path
from typing import Final

from tests.cluster import programs, wrappers
from tests.cluster.command import attempt, run
from tests.cluster.layout import DEVICES, Layout
from tools.stages import UserError, say, stage

WHO: Final = "cluster"
NAME: Final = "pd-operator"
_NODE: Final = f"{NAME}-control-plane"


def up(layout: Layout) -> None:
    """Create the cluster if it is not there, and let its node have the devices of the tests."""
    kind = _kind()
    layout.state.mkdir(parents=True, exist_ok=True)
    wrappers.write(layout, wrappers.clients())
    if NAME in run([kind, "get", "clusters"]).split():
        run([kind, "export", "kubeconfig", "--name", NAME, "--kubeconfig", str(layout.kubeconfig)])
        say(WHO, "runs already")
    else:
        with stage(WHO, "creating a cluster with kind"):
            run(
                [
                    *(kind, "create", "cluster", "--name", NAME, "--wait", "180s"),
                    *("--kubeconfig", str(layout.kubeconfig)),
                ],
                timeout=900,
            )
    patch = {"status": {"capacity": {name: str(count) for name, count in DEVICES.items()}}}
    _kubectl(
        layout,
        *("patch", "node", _NODE, "--subresource=status", "--type=merge", "-p", json.dumps(patch)),
    )


def down(layout: Layout) -> None:
    """Delete the cluster."""
    with stage(WHO, "deleting the cluster"):
        run([_kind(), "delete", "cluster", "--name", NAME])
    layout.kubeconfig.unlink(missing_ok=True)


def status(layout: Layout) -> bool:
    """Print the nodes; whether the cluster answers."""
    if NAME not in run([_kind(), "get", "clusters"]).split():
        print("kind has no cluster pd-operator")
        return False
    nodes = attempt(str(layout.bin / "kubectl"), *_config(layout), "get", "nodes", "-o", "wide")
    print(nodes or "the API server does not answer")
    return bool(nodes)


def import_image(layout: Layout, archive: Path) -> None:
    """Bring the images of a docker-archive into the node."""
    run([_kind(), "load", "image-archive", str(archive), "--name", NAME], timeout=900)


def image_names(layout: Layout) -> frozenset[str]:
    """References of the images that the node has."""
    listing = json.loads(run(["docker", "exec", _NODE, "crictl", "images", "-o", "json"]))
    return frozenset(name for image in listing["images"] for name in image.get("repoTags") or ())


def _kind() -> str:
    if shutil.which("docker") is None:
        raise UserError("CLUSTER=kind needs Docker, which is missing; without it leave CLUSTER out")
    run(["docker", "version", "--format", "{{.Server.Version}}"])
    return shutil.which("kind") or str(programs.kind() / "kind")


def _config(layout: Layout) -> tuple[str, str]:
    return "--kubeconfig", str(layout.kubeconfig)


def _kubectl(layout: Layout, *arguments: str) -> str:
    return run([str(layout.bin / "kubectl"), *_config(layout), *arguments])
