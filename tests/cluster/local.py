"""The local Kubernetes: up, down, status."""

import fcntl
import hashlib
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from tests.cluster import (
    commands,
    containers,
    files,
    leftovers,
    machine,
    mounts,
    processes,
    programs,
    registry,
    start,
)
from tests.cluster.api import Api, is_ready
from tests.cluster.layout import NODE, Layout
from tools.paths import cache
from tools.stages import UserError, say, stage

WHO: Final = "cluster"
_WATCHERS: Final = ("controller-manager", "scheduler")


def up(layout: Layout) -> None:
    """Start what does not run; take away first what another cluster left. Raises UserError."""
    cni = machine.prepare(layout.state)
    binaries = programs.kubernetes()
    texts = files.files(layout, start.pause_image(), str(cni))
    fingerprint = _fingerprint(layout, binaries, texts)
    with _lock():
        if _goes_on(layout, fingerprint) and _continue(layout, binaries):
            return
        begin = time.monotonic()
        _clear(layout)
        machine.check_ports()
        try:
            start.all_anew(layout, binaries, texts)
        except BaseException:
            say(WHO, "the start failed; taking away what was started (the logs stay)")
            leftovers.remove(layout)
            raise
        note = registry.read()
        if note:
            registry.write(replace(note, fingerprint=fingerprint))
        took = time.monotonic() - begin
        say(WHO, f"up after {took:.1f} s; kubectl is {layout.bin / 'kubectl'}")


def down(layout: Layout) -> None:
    """Stop the cluster and remove what it left on the machine; images and logs stay."""
    if os.geteuid() != 0:
        raise UserError("the local cluster needs root; run the command with sudo")
    with _lock():
        if leftovers.exist():
            with stage(WHO, "stopping"):
                leftovers.remove(layout)
        else:
            say(WHO, "does not run")
        _forget(layout)


def status(layout: Layout) -> bool:
    """Print the cluster's programs; whether all run and the node is ready."""
    found = {process.name: process for process in processes.running(layout.run)}
    pods = [p for p in processes.running(layout.run) if p.name == processes.SHIM]
    print(f"{'PROGRAM':<20}{'PID':>8}")
    for name in commands.PROGRAMS:
        print(f"{name:<20}{found[name].pid if name in found else '-':>8}")
    if "kwok" in found:
        print(f"{'kwok':<20}{found['kwok'].pid:>8}")
    ready = node = False
    if (layout.pki / "ca.crt").exists():
        api = Api(layout)
        ready = api.ready()
        node = ready and is_ready(api.node(NODE))
    print(f"API server {'ready' if ready else 'not ready'}")
    print(f"node {NODE} {'ready' if node else 'not ready'}, {len(pods)} pods")
    note = registry.read()
    if note and note.state != layout.state:
        print(f"the cluster of {note.state.parent} is up on this machine")
    return node and not start.missing(layout)


def import_image(layout: Layout, archive: Path) -> None:
    """Bring the images of a docker-archive into the node."""
    containers.import_image(layout, archive)


def image_names(layout: Layout) -> frozenset[str]:
    """References of the images that the node has."""
    return containers.image_names(layout)


@contextmanager
def _lock() -> Iterator[None]:
    """One command at a time: the machine has one node address."""
    cache().mkdir(parents=True, exist_ok=True)
    with (cache() / "cluster.lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(WHO, "waiting for another command that starts or stops a cluster")
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _fingerprint(layout: Layout, binaries: Path, texts: dict[str, str]) -> str:
    lines = {name: start.arguments(layout, name) for name in commands.PROGRAMS}
    content = json.dumps([str(binaries), texts, lines, files.dns()], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def _goes_on(layout: Layout, fingerprint: str) -> bool:
    """Whether this checkout's cluster runs, as it would be started now, but for some programs."""
    note = registry.read()
    whole = note is not None and note.state == layout.state and note.fingerprint == fingerprint
    kept = layout.kubeconfig.exists() and mounts.under(layout.kubelet)
    return bool(whole and kept and len(start.missing(layout)) < len(commands.PROGRAMS) // 2)


def _continue(layout: Layout, binaries: Path) -> bool:
    """Start the programs that ended; False where the cluster does not get well by that."""
    missing = start.missing(layout)
    say(WHO, f"starting {', '.join(missing)} again" if missing else "runs already")
    if {"etcd", "apiserver"} & set(missing):
        # They miss what changes until they watch again; the scheduler ends itself over a pod that
        # was meanwhile replaced by one of the same name.
        processes.end(lambda one: one.run == layout.run and one.name in _WATCHERS)
        missing = start.missing(layout)
    try:
        start.commands_for_user(layout, binaries)
        start.programs(layout, binaries, missing)
        start.wait_until_ready(layout)
    except UserError as error:
        say(WHO, f"cannot go on, so everything starts anew: {error}")
        return False
    return True


def _clear(layout: Layout) -> None:
    if leftovers.exist():
        note = registry.read()
        if note and note.state != layout.state:
            what = f"taking over from the cluster of {note.state.parent}"
        else:
            what = "taking away what an earlier run left"
        with stage(WHO, what):
            leftovers.remove(layout)
    _forget(layout)


def _forget(layout: Layout) -> None:
    """Remove this checkout's state but for images and logs."""
    for name in ("etcd", "kubelet", "pki", "config", "bin"):
        mounts.remove(layout.state / name)
    layout.kubeconfig.unlink(missing_ok=True)
