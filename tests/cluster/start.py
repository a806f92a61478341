"""Starting the cluster's programs, and waiting until each does its work."""

import json
import shutil
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path
from typing import Final

from tests.cluster import (
    certificates,
    commands,
    containers,
    files,
    mounts,
    network,
    processes,
    registry,
    wrappers,
)
from tests.cluster.api import Answer, Api, Manifest, is_ready
from tests.cluster.command import run
from tests.cluster.layout import (
    ADDRESS,
    API_SERVICE,
    CGROUP,
    DEVICES,
    DNS_READY_PORT,
    KUBELET_PORT,
    NODE,
    Layout,
)
from tools.paths import BUILD
from tools.stages import UserError, stage

WHO: Final = "cluster"


def pause_image() -> str:
    from tools import images  # it imports this package when it loads images

    return images.build(["pause"])["pause"]


def _current_images() -> list[str]:
    """References that the last builds of this checkout told."""
    try:
        known: dict[str, str] = json.loads((BUILD / "images.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return []
    return list(known.values())


def arguments(layout: Layout, name: str) -> list[str]:
    made: list[str] = getattr(commands, name.replace("-", "_"))(layout)
    return made


def missing(layout: Layout) -> list[str]:
    alive = {process.name for process in processes.running(layout.run)}
    return [name for name in commands.PROGRAMS if name not in alive]


def all_anew(layout: Layout, binaries: Path, texts: dict[str, str]) -> None:
    with stage(WHO, "preparing the node"):
        registry.write(registry.Note(layout.state, "", network.settings(), tuple(network.tables())))
        _keep_logs(layout)
        for folder in (layout.logs, layout.config, layout.state / "etcd"):
            folder.mkdir(parents=True, exist_ok=True)
        (layout.state / "etcd").chmod(0o700)
        for name, text in texts.items():
            path = layout.config / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        certificates.make(layout)
        commands_for_user(layout, binaries)
        mounts.bind(layout.state / "kubelet", layout.kubelet)
        network.set_up()
        _make_cgroups()
    with stage(WHO, "starting etcd, the API server and containerd"):
        programs(layout, binaries, ["etcd", "apiserver", "containerd"])
        _wait_for_containerd(layout, binaries)
        if containers.remove_containers(layout):
            processes.end(lambda process: process.name == "containerd")
            programs(layout, binaries, ["containerd"])
            _wait_for_containerd(layout, binaries)
        containers.remove_stale_images(layout, _current_images())
        _load_pause()
        api = Api(layout)
        processes.wait_with(
            layout, ["etcd", "apiserver"], api.ready, "the API server to become ready"
        )
    with stage(WHO, "starting the node and the controllers"):
        programs(layout, binaries, [name for name in commands.PROGRAMS if name in missing(layout)])
        wait_until_ready(layout)


def _keep_logs(layout: Layout) -> None:
    """Keep the logs of the run before this one, which may tell why this one became necessary."""
    previous = layout.state / "logs.previous"
    if layout.logs.exists():
        shutil.rmtree(previous, ignore_errors=True)
        layout.logs.rename(previous)


def commands_for_user(layout: Layout, binaries: Path) -> None:
    """The kubeconfig and .cluster/bin, which another choice of CLUSTER may have changed."""
    certificates.write_kubeconfig(layout)
    wrappers.write(
        layout,
        {
            "kubectl": [str(binaries / "kube"), "kubectl"],
            "helm": [str(binaries / "helm")],
            "ctr": ["ctr", "-a", str(layout.socket), "-n", "k8s.io"],
        },
    )


def programs(layout: Layout, binaries: Path, names: Collection[str]) -> None:
    """Start programs, each when what it needs from the first moment on is there."""
    for name in commands.PROGRAMS:
        if name in names:
            if name == "kubelet":
                _wait_for_containerd(layout, binaries)
            _start(layout, binaries, name)


def _start(layout: Layout, binaries: Path, name: str) -> None:
    if name == "containerd":
        executable = Path(shutil.which("containerd") or "containerd")
        processes.start(layout, name, executable, arguments(layout, name))
    else:
        processes.start(layout, name, binaries / "kube", [name, *arguments(layout, name)])


def _wait_for_containerd(layout: Layout, binaries: Path) -> None:
    processes.wait_with(
        layout, ["containerd"], lambda: containers.answers(layout), "containerd to answer"
    )
    run([str(binaries / "kube"), "cri-wait", "-socket", str(layout.socket)])


def _load_pause() -> None:
    from tools import images

    images.load(["pause"])


def wait_until_ready(layout: Layout) -> None:
    api = Api(layout)
    processes.wait_with(layout, ["etcd", "apiserver"], api.ready, "the API server to become ready")
    for path, manifest in files.dns().items():
        _apply(layout, api, path, manifest)

    def ready() -> bool:
        # What the API server knows of the node may be older than the kubelet that runs now.
        if not network.connects(ADDRESS, KUBELET_PORT):
            return False
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


def _apply(layout: Layout, api: Api, path: str, manifest: Manifest) -> None:
    """Apply an object, more than once where a server that has just started does not take it yet."""
    answer = Answer(0, "")

    def done() -> bool:
        nonlocal answer
        answer = api.apply(path, manifest)
        return answer.code in (200, 201)

    try:
        processes.wait_with(layout, ["apiserver"], done, path)
    except UserError as error:
        raise UserError(f"{error} ({answer.body})") from None


def _proxy_routes() -> bool:
    return network.connects(API_SERVICE, 443)


def _dns_ready() -> bool:
    return network.connects(ADDRESS, DNS_READY_PORT)


def _make_cgroups() -> None:
    root = Path("/sys/fs/cgroup")
    controllers = root / "cgroup.controllers"
    if controllers.exists():  # version 2: one hierarchy, whose controllers must be let through
        for name in controllers.read_text().split():
            with suppress(OSError):  # the kubelet tells it where one that it needs is missing
                (root / "cgroup.subtree_control").write_text(f"+{name}")
        (root / CGROUP).mkdir(exist_ok=True)
        return
    for hierarchy in root.iterdir():
        if (hierarchy / "cgroup.procs").exists() and not hierarchy.is_symlink():
            (hierarchy / CGROUP).mkdir(exist_ok=True)
