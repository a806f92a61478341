"""What the cluster says where the machine lacks something."""

import os
import shutil
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tests.cluster import machine
from tools.stages import UserError

TABLE = """\
  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 00000000:192B 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 4321 1 0 100 0
   1: 01FFF40A:094B 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 4322 1 0 100 0
   2: 0100007F:280A 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 4323 1 0 100 0
   3: 00000000:280B 0100007F:1234 01 00000000:00000000 00:00000000 00000000 0 0 4324 1 0 100 0
"""


def test_listeners_that_would_be_in_the_way_are_found() -> None:
    """Those on all addresses and on the node's; not those on another one, not connections."""
    assert machine.listeners(TABLE) == [(6443, 4321), (2379, 4322)]


def test_a_busy_port_is_told_with_its_holder(monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("0.0.0.0", 0)) as server:
        monkeypatch.setattr(machine, "PORTS", {server.getsockname()[1]: "the API server"})
        with pytest.raises(UserError, match=rf"the API server, but .*pid {os.getpid()}\) listens"):
            machine.check_ports()


def test_ports_that_are_free_are_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "PORTS", {})
    machine.check_ports()


def _no_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1000)


def _no_linux(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("platform.system", lambda: "Darwin")


class _Usage(NamedTuple):
    total: int
    used: int
    free: int


def _no_space(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: _Usage(100, 99, 1))


@pytest.mark.parametrize(
    ("lack", "told"),
    [
        (_no_root, "needs root; run the command with sudo"),
        (_no_linux, "needs Linux"),
        (_no_space, "0.0 GiB free"),
    ],
)
def test_a_lack_is_told_in_one_line(
    lack: Callable[[pytest.MonkeyPatch], None],
    told: str,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    _complete(monkeypatch, tmp_path)
    lack(monkeypatch)
    with pytest.raises(UserError, match=told) as error:
        machine.prepare(tmp_path / "state")
    assert "\n" not in str(error.value)


def test_only_packages_of_missing_commands_are_installed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A machine with Docker has its own containerd, which Debian's package would displace."""
    _complete(monkeypatch, tmp_path)
    monkeypatch.setattr(shutil, "which", lambda name: None if name in {"nft", "runc"} else name)
    asked: list[Any] = []
    monkeypatch.setattr(machine, "ensure", asked.append)
    machine.prepare(tmp_path / "state")
    assert asked == [["nftables", "runc"]]


def test_plugins_that_no_package_brings_are_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    _complete(monkeypatch, tmp_path)
    monkeypatch.setattr(machine, "_CNI_FOLDERS", (tmp_path / "none",))
    with pytest.raises(UserError, match="no CNI plugins"):
        machine.prepare(tmp_path / "state")


def _complete(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    """A machine that has everything."""
    monkeypatch.setenv("PATH", os.environ["PATH"])  # restored at the end
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(shutil, "which", lambda name: f"/usr/bin/{name}")
    monkeypatch.setattr(machine, "ensure", lambda _: None)
    monkeypatch.setattr(machine, "_CNI_FOLDERS", (folder,))
    for name in ("ptp", "host-local", "portmap", "loopback"):
        (folder / name).touch()
