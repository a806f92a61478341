"""The local Kubernetes: up, down, status."""

import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Final

from tests.cluster import (
    certificates,
    commands,
    containers,
    files,
    leftovers,
    machine,
    mounts,
    network,
    processes,
    programs,
    registry,
    wrappers,
)
from tests.cluster.api import Api, is_ready
from tests.cluster.layout import (
    ADDRESS,
    API_SERVICE,
    CGROUP,
    DEVICES,
    DNS_READY_PORT,
    NODE,
    Layout,
)
from tools.paths import BUILD, cache
from tools.stages import UserError, say, stage

WHO: Final = "cluster"


def up(layout: Layout) -> None:
    """Start what does not run; take away first what another cluster left. Raises UserError."""
    with _lock():
        cni = machine.prepare(layout.state)
        binaries = programs.kubernetes()
        pause = _pause_image()
        texts = files.files(layout, pause, str(cni))
        fingerprint = _fingerprint(layout, binaries, texts)
        if _goes_on(layout, fingerprint):
            missing = _missing(layout)
            if missing:
                say(WHO, f"starting {', '.join(missing)} again")
            else:
                say(WHO, "runs already")
            _start(layout, binaries, missing)
            _wait_until_ready(layout)
            return
        _clear(layout)
        machine.check_ports()
        try:
            _start_anew(layout, binaries, texts)
        except BaseException:
            say(WHO, "the start failed; taking away what was started (the logs stay)")
            leftovers.remove(layout)
            raise
        note = registry.read()
        if note:
            registry.write(replace(note, fingerprint=fingerprint))
        say(WHO, f"up; kubectl is {layout.bin / 'kubectl'}")


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
    return node and not _missing(layout)


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


def _pause_image() -> str:
    from tools import images  # it imports this package when it loads images

    return images.build(["pause"])["pause"]


def _current_images() -> list[str]:
    """References that the last builds of this checkout told."""
    try:
        known: dict[str, str] = json.loads((BUILD / "images.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    return list(known.values())


def _fingerprint(layout: Layout, binaries: Path, texts: dict[str, str]) -> str:
    lines = {name: _arguments(layout, name) for name in commands.PROGRAMS}
    content = json.dumps([str(binaries), texts, lines, files.dns()], sort_keys=True)
    return hashlib.sha256(content.encode()).hexdigest()[:16]


def _arguments(layout: Layout, name: str) -> list[str]:
    made: list[str] = getattr(commands, name.replace("-", "_"))(layout)
    return made


def _missing(layout: Layout) -> list[str]:
    alive = {process.name for process in processes.running(layout.run)}
    return [name for name in commands.PROGRAMS if name not in alive]


def _goes_on(layout: Layout, fingerprint: str) -> bool:
    """Whether this checkout's cluster runs, as it would be started now, but for some programs."""
    note = registry.read()
    whole = note is not None and note.state == layout.state and note.fingerprint == fingerprint
    kept = layout.kubeconfig.exists() and mounts.under(layout.kubelet)
    return bool(whole and kept and len(_missing(layout)) < len(commands.PROGRAMS) // 2)


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


def _start_anew(layout: Layout, binaries: Path, texts: dict[str, str]) -> None:
    with stage(WHO, "preparing the node"):
        registry.write(registry.Note(layout.state, "", network.settings(), tuple(network.tables())))
        shutil.rmtree(layout.logs, ignore_errors=True)
        for folder in (layout.logs, layout.config, layout.state / "etcd"):
            folder.mkdir(parents=True, exist_ok=True)
        (layout.state / "etcd").chmod(0o700)
        for name, text in texts.items():
            path = layout.config / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        certificates.make(layout)
        mounts.bind(layout.state / "kubelet", layout.kubelet)
        network.set_up()
        _make_cgroups()
        wrappers.write(
            layout,
            {
                "kubectl": [str(binaries / "kube"), "kubectl"],
                "helm": [str(binaries / "helm")],
                "ctr": ["ctr", "-a", str(layout.socket), "-n", "k8s.io"],
            },
        )
    with stage(WHO, "starting etcd, the API server and containerd"):
        _start(layout, binaries, ["etcd", "apiserver", "containerd"])
        _wait_for_containerd(layout)
        if containers.remove_containers(layout):
            processes.end(lambda process: process.name == "containerd")
            _start(layout, binaries, ["containerd"])
            _wait_for_containerd(layout)
        containers.remove_stale_images(layout, _current_images())
        _load_pause()
        api = Api(layout)
        processes.wait_with(
            layout, ["etcd", "apiserver"], api.ready, "the API server to become ready"
        )
    with stage(WHO, "starting the node and the controllers"):
        _start(layout, binaries, [name for name in commands.PROGRAMS if name in _missing(layout)])
        _wait_until_ready(layout)


def _start(layout: Layout, binaries: Path, names: list[str]) -> None:
    for name in names:
        if name == "containerd":
            executable = Path(shutil.which("containerd") or "containerd")
            processes.start(layout, name, executable, _arguments(layout, name))
        else:
            processes.start(layout, name, binaries / "kube", [name, *_arguments(layout, name)])


def _wait_for_containerd(layout: Layout) -> None:
    processes.wait_with(
        layout, ["containerd"], lambda: containers.answers(layout), "containerd to answer"
    )


def _load_pause() -> None:
    from tools import images

    images.load(["pause"])


def _wait_until_ready(layout: Layout) -> None:
    api = Api(layout)
    processes.wait_with(layout, ["etcd", "apiserver"], api.ready, "the API server to become ready")
    for path, manifest in files.dns().items():
        answer = api.apply(path, manifest)
        if answer.code not in (200, 201):
            raise UserError(f"the API server refused {path}: {answer.body}")

    def ready() -> bool:
        node = api.node(NODE)
        free = (node or {}).get("status", {}).get("allocatable", {})
        devices = all(free.get(name) == str(count) for name, count in DEVICES.items())
        return is_ready(node) and devices

    processes.wait_with(
        layout,
        ["containerd", "device-plugin", "kubelet"],
        ready,
        f"the node {NODE} to become ready with its devices",
    )
    account = "/api/v1/namespaces/default/serviceaccounts/default"
    processes.wait_with(
        layout,
        ["scheduler", "controller-manager"],
        lambda: api.request("GET", account).code == 200,
        "the default service account",
    )
    processes.wait_with(layout, ["proxy"], _proxy_routes, "kube-proxy to route Services")
    processes.wait_with(layout, ["coredns"], _dns_ready, "CoreDNS to become ready")


def _proxy_routes() -> bool:
    return network.connects(API_SERVICE, 443)


def _dns_ready() -> bool:
    return network.connects(ADDRESS, DNS_READY_PORT)


def _make_cgroups() -> None:
    root = Path("/sys/fs/cgroup")
    if (root / "cgroup.controllers").exists():
        (root / CGROUP).mkdir(exist_ok=True)
        return
    for hierarchy in root.iterdir():
        if (hierarchy / "cgroup.procs").exists() and not hierarchy.is_symlink():
            (hierarchy / CGROUP).mkdir(exist_ok=True)
