"""The local cluster comes up over anything, and goes without a trace.

These tests stop and kill the machine's cluster; each leaves it up.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests import cluster
from tests.cluster import choice, commands, containers, machine, processes
from tests.cluster.layout import ADDRESS, NODE, Layout
from tests.kube import CommandError, Kube, until
from tools import images
from tools.paths import REPOSITORY
from tools.stages import UserError

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.leftovers,
    pytest.mark.skipif(
        os.environ.get("CLUSTER", "local") not in ("", choice.Kind.LOCAL),
        reason="only the local cluster leaves something on the machine",
    ),
]

MARK = "98765"
"""Seconds that the test's pod sleeps: a word by which its process is found."""

SKIPPED = (".git", ".venv", ".cluster", "build", "__pycache__", ".*_cache")


@pytest.fixture(autouse=True)
def up() -> Iterator[None]:
    """The cluster, up before and after each test."""
    cluster.up()
    yield
    cluster.up()


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A copy of the checkout, which shares nothing with it but the cache."""
    target = tmp_path / "checkout"
    shutil.copytree(REPOSITORY, target, ignore=shutil.ignore_patterns(*SKIPPED), symlinks=True)
    return target


def in_checkout(folder: Path, command: str) -> str:
    """What `python -m tests.cluster COMMAND` printed in another checkout."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.cluster", command],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def start_pod(layout: Layout) -> None:
    """A pod with what a pod leaves behind: volumes, a network, a port of the node, a process."""
    kube = Kube(layout.kubeconfig, layout.bin)
    manifest = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "leftover"},
        "spec": {
            "terminationGracePeriodSeconds": 0,
            "containers": [
                {
                    "name": "sleep",
                    "image": images.build(["pause"])["pause"],
                    "command": ["/bin/busybox", "sleep", MARK],
                    "ports": [{"containerPort": 8080, "hostPort": 18080}],
                    "volumeMounts": [{"name": "memory", "mountPath": "/memory"}],
                }
            ],
            "volumes": [{"name": "memory", "emptyDir": {"medium": "Memory"}}],
        },
    }
    kube.apply(manifest, "default")
    kube.kubectl("wait", "pod/leftover", "-n", "default", "--for=condition=Ready", "--timeout=60s")
    assert pods_processes()
    assert "CNI-HOSTPORT" in output("iptables-save")


def pods_processes() -> list[int]:
    """Processes of the pod, whoever their parent is."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_text().split("\0")
        except OSError:
            continue
        if words[-2:-1] == [MARK]:
            found.append(int(folder.name))
    return found


def answers() -> bool:
    """Whether the pod takes a command; not yet while a new kubelet still reads its list of pods."""
    try:
        text = Kube().kubectl(
            "exec", "leftover", "-n", "default", "--", "/bin/busybox", "echo", "a"
        )
    except CommandError:
        return False
    return text == "a\n"


def output(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def kill_everything() -> None:
    """What a killed run leaves: nothing gets the chance to clean up."""
    killed = processes.running()
    assert {"etcd", "kubelet", "containerd", processes.SHIM} <= {one.name for one in killed}
    for process in killed:
        os.kill(process.pid, signal.SIGKILL)
    until(lambda: not processes.running(), 20, "the cluster's processes to end")


def test_a_cluster_that_is_up_is_left_alone() -> None:
    before = set(processes.running())
    cluster.up()
    assert set(processes.running()) == before


def test_a_program_that_ended_is_started_again_and_pods_stay() -> None:
    start_pod(cluster.LAYOUT)
    pods = pods_processes()
    # A pod of before may still be on its way out.
    before = {one for one in processes.running() if one.name in commands.PROGRAMS}
    ended = {one for one in before if one.name in ("kubelet", "apiserver", "containerd")}
    restarted = {one for one in before if one.name in ("scheduler", "controller-manager")}
    for process in ended:
        processes.kill(process)
    until(lambda: not ended & set(processes.running()), 20, "three programs to end")
    cluster.up()
    after = set(processes.running())
    assert before - ended - restarted <= after
    assert {one.name for one in after} >= set(commands.PROGRAMS)
    assert pods_processes() == pods
    until(answers, 30, "the pod to take a command")
    Kube().kubectl("delete", "pod", "leftover", "-n", "default")
    until(lambda: not pods_processes(), 30, "the pod's process to end")


def test_another_checkout_takes_over_what_a_killed_run_left(copy: Path) -> None:
    other = Layout(copy / ".cluster")
    start_pod(cluster.LAYOUT)
    kill_everything()
    assert f"taking over from the cluster of {REPOSITORY}" in in_checkout(copy, "up")
    assert pods_processes() == []
    assert {one.run for one in processes.running()} == {other.run}
    assert f"cluster of {copy}" in in_checkout(REPOSITORY, "status")

    # Now the state itself is lost, with everything killed.
    start_pod(other)
    kill_everything()
    shutil.rmtree(copy, ignore_errors=True)  # mount points cannot be removed
    cluster.up()
    assert pods_processes() == []
    assert not other.run.exists()
    nodes = Kube().list("nodes", "default")
    assert [node["metadata"]["name"] for node in nodes] == [NODE]


def test_down_leaves_nothing() -> None:
    start_pod(cluster.LAYOUT)
    ids = containers.ctr(cluster.LAYOUT, "containers", "list", "-q").split()
    assert ids
    cluster.down()
    assert pods_processes() == []
    assert "/run/pd-operator" not in output("ps", "-eww", "-o", "args")
    mounted = Path("/proc/self/mountinfo").read_text()
    assert "/run/pd-operator" not in mounted
    assert str(cluster.LAYOUT.state) not in mounted
    rules = output("nft", "list", "ruleset") + output("iptables-save") + output("ip6tables-save")
    for word in ("kube-proxy", "KUBE-", "CNI-", "10.244."):
        assert word not in rules
    assert ADDRESS not in output("ip", "address")
    routes = output("ip", "route", "show", "table", "all")
    assert "10.244." not in routes
    assert "10.96." not in routes
    assert "cni-" not in output("ip", "netns", "list")
    assert not [*Path("/run").rglob("pd-operator*"), *Path("/run/containerd").glob("s/*")]
    assert not list(Path("/sys/fs/cgroup").rglob("pd-operator*"))
    shared = [*Path("/var/lib/cni/results").glob("*"), *Path("/var/log/containers").glob("*")]
    assert not [path for path in shared if any(one in path.name for one in ids)]
    assert not Path("/var/lib/kubelet/device-plugins").exists()
    assert not cluster.LAYOUT.kubeconfig.exists()

    # While nothing runs: a port that somebody else has is told, and nothing is started.
    with socket.create_server(("0.0.0.0", 10259)):
        with pytest.raises(UserError, match=rf"port 10259 .* \(pid {os.getpid()}\)"):
            cluster.up()
        assert processes.running() == []
    machine.check_ports()
