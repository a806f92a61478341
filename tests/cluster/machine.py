"""What the machine must have before the cluster starts; each lack is told in one line."""

import os
import platform
import shutil
from pathlib import Path
from typing import Final

from tests.cluster.layout import ADDRESS, PORTS
from tools.packages import ensure
from tools.stages import UserError

_COMMANDS: Final = {
    "containerd": "containerd",
    "ctr": "containerd",
    "runc": "runc",
    "nft": "nftables",
    "iptables": "iptables",
    "ip": "iproute2",
    "conntrack": "conntrack",
    "openssl": "openssl",
    "mount": "mount",
    "setsid": "util-linux",
}
_SYSTEM: Final = ("/usr/sbin", "/sbin")
_CNI_FOLDERS: Final = (Path("/usr/lib/cni"), Path("/opt/cni/bin"))
_CNI_PLUGINS: Final = ("ptp", "host-local", "portmap", "loopback")
_CNI_PACKAGE: Final = "containernetworking-plugins"
_SPACE: Final = 2 * 2**30
_LISTEN: Final = "0A"


def prepare(state: Path) -> Path:
    """Check the machine, install missing packages; the folder of the CNI plugins.

    Raises UserError.
    """
    if platform.system() != "Linux":
        raise UserError("the local cluster needs Linux; elsewhere use CLUSTER=kind with Docker")
    if os.geteuid() != 0:
        raise UserError("the local cluster needs root; run the command with sudo, or CLUSTER=kind")
    path = os.environ.get("PATH", os.defpath).split(":")
    # A root shell made by `su` alone may lack these, where nft and ip are.
    os.environ["PATH"] = ":".join([*path, *(name for name in _SYSTEM if name not in path)])
    packages = {pack for command, pack in _COMMANDS.items() if shutil.which(command) is None}
    if _cni_folder() is None:
        packages.add(_CNI_PACKAGE)
    if packages:
        ensure(sorted(packages))
    folder = _cni_folder()
    if folder is None:
        raise UserError(f"no CNI plugins in {_CNI_FOLDERS[0]}; install {_CNI_PACKAGE}")
    state.mkdir(parents=True, exist_ok=True)
    free = shutil.disk_usage(state).free
    if free < _SPACE:
        raise UserError(
            f"{state} has {free / 2**30:.1f} GiB free, the cluster needs {_SPACE / 2**30:.0f}; "
            "free some disk space"
        )
    return folder


def _cni_folder() -> Path | None:
    for folder in _CNI_FOLDERS:
        if all((folder / name).exists() for name in _CNI_PLUGINS):
            return folder
    return None


def check_ports() -> None:
    """UserError where another program listens on a port of the cluster, on every address."""
    for table in ("tcp", "tcp6"):
        path = Path("/proc/net") / table
        for port, inode in listeners(path.read_text()) if path.exists() else ():
            if port in PORTS:
                raise UserError(
                    f"port {port} is needed by {PORTS[port]}, but {_holder(inode)} listens on it; "
                    "stop that program"
                )


def listeners(table: str) -> list[tuple[int, int]]:
    """Port and inode of sockets that take connections to the node's address, in /proc/net/tcp."""
    node = "".join(f"{int(part):02X}" for part in reversed(ADDRESS.split(".")))
    found = []
    for line in table.splitlines()[1:]:
        words = line.split()
        address, _, port = words[1].rpartition(":")
        if words[3] == _LISTEN and (set(address) == {"0"} or address == node):
            found.append((int(port, 16), int(words[9])))
    return found


def _holder(inode: int) -> str:
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            for link in (folder / "fd").iterdir():
                if os.readlink(link) == f"socket:[{inode}]":
                    return f"{(folder / 'comm').read_text().strip()} (pid {folder.name})"
        except OSError:
            continue  # it ended meanwhile
    return "a process that is not visible from here"
