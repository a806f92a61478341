"""Taking a cluster off the machine: this checkout's or another's, alive, half dead or dead."""

import os
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

from tests.cluster import mounts, network, processes, registry
from tests.cluster.layout import CGROUP, CNI_NETWORK, REGISTRY, RUN_ROOT, Layout

_CGROUPS: Final = Path("/sys/fs/cgroup")
_SHIM_SOCKETS: Final = Path("/run/containerd/s")
_KUBELET: Final = Path("/var/lib/kubelet")
_CNI_RESULTS: Final = Path("/var/lib/cni/results")
_CONTAINER_LOGS: Final = Path("/var/log/containers")


def exist() -> bool:
    """Whether there is anything of a cluster, running or not."""
    return RUN_ROOT.exists() or bool(processes.running()) or any(_cgroups())


def remove(layout: Layout) -> None:
    """Remove every trace but the state folders; leaves the images that a state folder holds.

    Raises UserError where something stays.
    """
    note = registry.read()
    # The kubelet first, or it would start again what ends; containerd's shims last of all.
    processes.end(lambda process: process.name not in {"containerd", processes.SHIM})
    processes.wait(lambda: not _kill_containers(), "the containers to end", 20)
    sockets = _shim_sockets()
    processes.end(lambda _: True)
    states = {layout.state, *([note.state] if note else [])}
    for state in states:
        mounts.unmount(state)
    mounts.unmount(RUN_ROOT)
    network.tear_down(note.tables if note else network.tables())
    _remove_cgroups()
    _remove_files(sockets, states)
    if note:
        network.restore(dict(note.settings))
    for folder in sorted(RUN_ROOT.glob("*/")):
        mounts.remove(folder)
    # Last, so that a cleaning that was cut off is begun anew.
    REGISTRY.unlink(missing_ok=True)
    mounts.remove(RUN_ROOT)


def _cgroups() -> Iterator[Path]:
    """The control group above all pods: one with version 2, one in each hierarchy with 1."""
    yield from (p for p in (_CGROUPS / CGROUP, *_CGROUPS.glob(f"*/{CGROUP}")) if p.is_dir())


def _groups_below() -> list[Path]:
    """All of the cluster's control groups; others may remove some while one looks."""
    return [Path(folder) for root in _cgroups() for folder, _, _ in os.walk(root)]


def _kill_containers() -> bool:
    """Kill what runs in pods; whether there was anything."""
    some = False
    for folder in _groups_below():
        path = folder / "cgroup.procs"
        for pid in _pids(path):
            some = True
            processes.kill_member(pid, path)
    return some


def _pids(path: Path) -> list[int]:
    try:
        return [int(line) for line in path.read_text().split()]
    except OSError:
        return []


def _remove_cgroups() -> None:
    for folder in sorted(_groups_below(), key=lambda path: len(path.parts), reverse=True):
        try:
            folder.rmdir()
        except OSError:
            continue  # told by the next try, or by the test that looks


def _shim_sockets() -> list[Path]:
    """Sockets of the shims, which lie in a folder that all containerds share."""
    addresses = RUN_ROOT.glob("*/containerd/io.containerd.runtime.v2.task/k8s.io/*/address")
    paths = [Path(path.read_text().strip().removeprefix("unix://")) for path in addresses]
    return [path for path in paths if path.parent == _SHIM_SOCKETS]


def _remove_files(sockets: Iterable[Path], states: Iterable[Path]) -> None:
    for path in sockets:
        path.unlink(missing_ok=True)
    for name in cni_results([path.name for path in _CNI_RESULTS.glob("*")]):
        (_CNI_RESULTS / name).unlink(missing_ok=True)
    for path in _CONTAINER_LOGS.glob("*.log"):
        target = Path(os.readlink(path)) if path.is_symlink() else path
        if any(target.is_relative_to(state) for state in states) or not path.exists():
            path.unlink(missing_ok=True)
    shutil.rmtree(_KUBELET / "device-plugins", ignore_errors=True)
    for folder in (
        _SHIM_SOCKETS,
        _SHIM_SOCKETS.parent,
        _KUBELET,
        _CNI_RESULTS,
        _CNI_RESULTS.parent,
        _CONTAINER_LOGS,
    ):
        _remove_if_empty(folder)


def cni_results(names: Sequence[str]) -> list[str]:
    """The files of the cluster's pods among those that all of the machine's networks share."""
    pods = {
        name.removeprefix(f"{CNI_NETWORK}-").rpartition("-")[0]
        for name in names
        if name.startswith(f"{CNI_NETWORK}-")
    }
    return [
        name
        for name in names
        if name.startswith((f"{CNI_NETWORK}-", "cni-loopback-"))
        and any(f"-{pod}-" in name for pod in pods)
    ]


def _remove_if_empty(folder: Path) -> None:
    try:
        folder.rmdir()
    except OSError:
        return  # somebody else uses it, or it is not there
