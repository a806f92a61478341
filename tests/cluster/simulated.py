"""Nodes that do not exist: kwok plays their kubelets, so pods become Ready without a process."""

import json
import os
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tests.cluster import choice, processes, programs
from tests.cluster.command import run
from tests.cluster.layout import ADDRESS, Layout
from tools.stages import UserError

GPU_NODE: Final = {
    "cpu": "192",
    "memory": "2Ti",
    "pods": "110",
    "nvidia.com/gpu": "8",
    "rdma/hca_shared_devices_a": "64",
}
"""Capacity of a node with eight GPUs and shared RDMA devices."""

_POD_CIDR: Final = "10.245.0.1/16"
_MARK: Final = "kwok.x-k8s.io/node"


def manifest(
    name: str, capacity: Mapping[str, str], labels: Mapping[str, str], taints: Sequence[str]
) -> dict[str, Any]:
    """A Node object that kwok will take for its own."""
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {
            "name": name,
            "annotations": {_MARK: "fake"},
            "labels": {
                "kubernetes.io/arch": "amd64",
                "kubernetes.io/hostname": name,
                "kubernetes.io/os": "linux",
                **labels,
            },
        },
        "spec": {"taints": [{"key": key, "effect": "NoSchedule"} for key in taints]},
        "status": {"capacity": dict(capacity), "allocatable": dict(capacity)},
    }


@contextmanager
def simulated_nodes(
    count: int,
    capacity: Mapping[str, str] = GPU_NODE,
    *,
    labels: Mapping[str, str] | None = None,
    prefix: str = "simulated",
    taints: Sequence[str] = (),
    layout: Layout = Layout(),  # noqa: B008 - frozen
) -> Iterator[list[str]]:
    """Have `count` more nodes in the cluster; yields their names, all Ready.

    capacity: what each node has. labels: what each is labelled with, besides the usual.
    taints: only pods that tolerate these keys come to them.
    At the end nodes and the pods on them are gone. Raises UserError.
    """
    kubeconfig = _kubeconfig(layout)
    names = [f"{prefix}-{number}" for number in range(count)]
    nodes = [manifest(name, capacity, labels or {}, taints) for name in names]
    listing = json.dumps({"apiVersion": "v1", "kind": "List", "items": nodes})
    program = programs.kwok()

    def kubectl(*arguments: str, text: str = "") -> str:
        command = [str(layout.bin / "kubectl"), "--kubeconfig", str(kubeconfig), *arguments]
        return run(command, text=text)

    with _kwok(layout, program, kubeconfig):
        try:
            # A killed run may have left nodes of these names.
            kubectl("delete", "--ignore-not-found", *_nodes(names))
            kubectl("create", "-f", "-", text=listing)
            kubectl("wait", "--for=condition=Ready", "--timeout=60s", *_nodes(names))
            yield names
        finally:
            kubectl("delete", "--ignore-not-found", "--wait=false", *_nodes(names))
            for name in names:
                kubectl(
                    *("delete", "pods", "--all-namespaces", "--wait=false"),
                    *("--force", "--grace-period=0", f"--field-selector=spec.nodeName={name}"),
                )


def _nodes(names: list[str]) -> list[str]:
    return [f"node/{name}" for name in names]


def _kubeconfig(layout: Layout) -> Path:
    if choice.chosen() is choice.Kind.EXISTING:
        return Path(os.environ["KUBECONFIG"])
    return layout.kubeconfig


@contextmanager
def _kwok(layout: Layout, folder: Path, kubeconfig: Path) -> Iterator[None]:
    executable = folder / "kwok"
    if choice.chosen() is choice.Kind.LOCAL:
        executable = processes.link(layout, "kwok", executable)  # so that `down` can find it
    stages = [f"--config={path}" for path in sorted((folder / "stages").glob("*.yaml"))]
    layout.logs.mkdir(parents=True, exist_ok=True)
    with (
        layout.log("kwok").open("ab") as log,
        subprocess.Popen(
            [
                str(executable),
                f"--kubeconfig={kubeconfig}",
                "--manage-all-nodes=false",
                f"--manage-nodes-with-annotation-selector={_MARK}=fake",
                f"--cidr={_POD_CIDR}",
                f"--node-ip={ADDRESS}",
                *stages,
            ],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
        ) as process,
    ):
        try:
            yield
            if process.poll() is not None:
                raise UserError(processes.ended("kwok", layout.log("kwok")))
        finally:
            process.kill()  # it holds nothing that has to be ended in order
