"""How the cluster's processes are told from others."""

import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.cluster import processes
from tests.cluster.layout import Layout
from tests.cluster.processes import SHIM, Process, identify, started
from tools.stages import UserError

RUN = Path("/run/pd-operator/0123abcd")


@pytest.mark.parametrize(
    ("command", "found"),
    [
        ([f"{RUN}/bin/etcd", "etcd", "--name=etcd"], (RUN, "etcd")),
        ([f"{RUN}/bin/device-plugin"], (RUN, "device-plugin")),
        (["setsid", "--fork", f"{RUN}/bin/kubelet", "kubelet"], (RUN, "kubelet")),
        (
            ["/usr/bin/containerd-shim-runc-v2", "-id", "x", "-address", f"{RUN}/containerd.sock"],
            (RUN, SHIM),
        ),
        (
            ["/usr/bin/containerd-shim-runc-v2", "-address", "/run/containerd/containerd.sock"],
            None,
        ),
        (["/usr/bin/containerd-shim-runc-v2", "-address"], None),
        (["/usr/bin/containerd"], None),
        (["vi", f"{RUN}/bin/etcd"], None),
        (["/run/pd-operator/other/bin/etcd"], None),
        (["setsid", "--fork"], None),
        ([], None),
    ],
)
def test_a_process_is_known_by_its_command_line(
    command: list[str], found: tuple[Path, str] | None
) -> None:
    assert identify(command) == found


def test_the_start_time_is_found_behind_any_name() -> None:
    fields = ["S", *map(str, range(4, 22)), "777", "8"]
    assert started(f"12 (a) b ( c) {' '.join(fields)}") == 777


def test_this_process_has_a_start_time() -> None:
    assert started(Path("/proc/self/stat").read_text()) > 0


def test_a_stranger_is_not_killed() -> None:
    with subprocess.Popen(["sleep", "60"]) as child:
        processes.kill(Process(child.pid, 0, RUN, "etcd"), signal.SIGKILL)
        assert child.poll() is None
        child.kill()


def test_a_process_that_has_gone_is_no_error() -> None:
    with subprocess.Popen(["true"]) as child:
        child.wait()
    processes.kill(Process(child.pid, 0, RUN, "etcd"))


def test_own_test_process_is_no_part_of_a_cluster() -> None:
    assert os.getpid() not in {process.pid for process in processes.running()}


def test_two_checkouts_have_two_run_folders(tmp_path: Path) -> None:
    assert Layout(tmp_path / "a").run != Layout(tmp_path / "b").run
    assert Layout(tmp_path / "a").run == Layout(tmp_path / "a").run


def test_a_socket_fits_its_limit_wherever_the_checkout_is() -> None:
    layout = Layout(Path("/", *["long-folder-name"] * 30))
    assert len(str(layout.kubelet / "pod-resources" / "kubelet.sock")) < 100


def test_a_program_that_ends_is_told_with_the_end_of_its_log(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    layout.logs.mkdir()
    layout.log("etcd").write_text("first\n" + "middle\n" * 8 + "cannot listen\n")
    with pytest.raises(UserError, match="etcd ended at its start") as told:
        processes.wait_with(layout, ["etcd"], lambda: False, "etcd")
    assert "cannot listen" in str(told.value)
    assert str(layout.log("etcd")) in str(told.value)
    assert "first" not in str(told.value)


def test_waiting_ends_with_what_was_waited_for() -> None:
    with pytest.raises(UserError, match="waited 0 s in vain for the moon"):
        processes.wait(lambda: False, "the moon", 0, pause=0)
