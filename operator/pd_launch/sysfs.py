"""RDMA devices as the kernel shows them below /sys and /dev. Whatever is not there reads as ""."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

_MAX_BYTES = 65536
_UVERBS = re.compile("uverbs[0-9]{1,4}")
_NAME = re.compile("[A-Za-z0-9_.:-]{1,64}")
_NO_GID = re.compile("[0:]*")
_MAX_GIDS = 256


@dataclass(frozen=True)
class Roots:
    """Where the kernel's folders are."""

    sys: Path = Path("/sys")
    proc: Path = Path("/proc")
    dev: Path = Path("/dev/infiniband")


@dataclass(frozen=True)
class Gid:
    """One entry of a port's GID table."""

    index: int
    kind: str
    """`IB/RoCE v1` or `RoCE v2`."""
    interface: str


@dataclass(frozen=True)
class Port:
    """One port of a device."""

    state: str
    """Such as ACTIVE or DOWN; "" when it is not known."""
    link_layer: str
    """InfiniBand or Ethernet."""
    gids: tuple[Gid, ...]
    """Those that are set."""


def read(path: Path) -> str:
    """The text of a small file; "" when it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(_MAX_BYTES).decode("utf-8", "replace").strip()
    except (OSError, ValueError):
        return ""


def allocated(
    roots: Roots, is_device: Callable[[Path], bool] = Path.is_char_device
) -> tuple[str, ...]:
    """Devices that the kubelet gave to this container.

    /sys shows all of the node's; only the character devices in /dev are this container's own.
    """
    found = set()
    try:
        names = [each.name for each in roots.dev.iterdir()]
    except OSError:
        return ()
    for name in names:
        if _UVERBS.fullmatch(name) and is_device(roots.dev / name):
            device = read(roots.sys / "class/infiniband_verbs" / name / "ibdev")
            if _NAME.fullmatch(device):
                found.add(device)
    return tuple(sorted(found))


def port(roots: Roots, device: str, number: int) -> Port:
    """What is known of a port."""
    folder = roots.sys / "class/infiniband" / device / "ports" / str(number)
    # "4: ACTIVE"
    state = read(folder / "state").rpartition(":")[2].strip()
    return Port(state, read(folder / "link_layer"), _gids(folder))


def mtu(roots: Roots, interface: str) -> int | None:
    """Of a network interface; None for one that this pod does not see."""
    if not _NAME.fullmatch(interface):
        return None
    value = read(roots.sys / "class/net" / interface / "mtu")
    return int(value) if re.fullmatch("[0-9]{1,9}", value) else None


def modules(roots: Roots) -> frozenset[str]:
    """The kernel's loaded modules."""
    lines = read(roots.proc / "modules").splitlines()
    return frozenset(line.split()[0] for line in lines if line.split())


def _gids(folder: Path) -> tuple[Gid, ...]:
    try:
        names = [each.name for each in (folder / "gids").iterdir()]
    except OSError:
        return ()
    found = []
    for index in sorted(int(name) for name in names if re.fullmatch("[0-9]{1,3}", name)):
        if index < _MAX_GIDS and not _NO_GID.fullmatch(read(folder / "gids" / str(index))):
            attributes = folder / "gid_attrs"
            kind = read(attributes / "types" / str(index))
            found.append(Gid(index, kind, read(attributes / "ndevs" / str(index))))
    return tuple(found)
