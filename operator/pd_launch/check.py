"""`preflight [options]`: an init container of engine pods that use RDMA."""

from __future__ import annotations

import argparse
import resource
from collections.abc import Sequence
from pathlib import Path

from pd_launch import environment
from pd_launch.log import say
from pd_launch.peers import silent
from pd_launch.preflight import Wanted, check, falling_back, with_peers
from pd_launch.sysfs import Roots


def preflight(arguments: Sequence[str]) -> int:
    """Check, write the result, and the code to exit with."""
    found = _parser().parse_args(arguments)
    wanted = Wanted(
        devices=tuple(name for name in found.devices.split(",") if name),
        count=found.count,
        port=found.port,
        link_layer=found.link_layer,
        gid_index=found.gid_index,
        mtu=found.mtu,
        memlock_bytes=found.memlock_bytes,
        peermem=found.peermem,
    )
    roots = Roots(Path(found.sys), Path(found.proc), Path(found.dev))
    limit = resource.getrlimit(resource.RLIMIT_MEMLOCK)[0]
    memlock = -1 if limit == resource.RLIM_INFINITY else limit
    finding = with_peers(check(wanted, roots, memlock), [p for p in found.peer if silent(p)])
    if found.fallback == "TCP":
        finding = falling_back(finding)
    say(f"preflight: {finding.reason}: {finding.message}")
    fell_back = not finding.ok and found.fallback == "TCP"
    _write(found.result, finding.json())
    if finding.ok or fell_back:
        if found.environment and not _write(
            found.environment, environment.content(fell_back, finding.devices)
        ):
            return 1
        return 0
    return 1


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="pd_launch preflight", allow_abbrev=False)
    add = parser.add_argument
    add("--devices", default="", help="names that must be there; default: whatever was allocated")
    add("--count", type=int, default=1, help="devices that must be there at least")
    add("--port", type=int, default=1)
    add("--link-layer", choices=("InfiniBand", "Ethernet"))
    add("--gid-index", type=int)
    add("--mtu", type=int)
    add("--memlock-bytes", type=int)
    add("--peermem", action="store_true", help="nvidia_peermem must be loaded")
    add(
        "--peer",
        action="append",
        default=[],
        help="HOST:PORT of the other tier, told when out of reach",
    )
    add("--fallback", choices=("Never", "TCP"), default="Never")
    add("--result", default="/dev/termination-log")
    add("--environment", default="", help="file for the launcher's --environment")
    add("--sys", default="/sys")
    add("--proc", default="/proc")
    add("--dev", default="/dev/infiniband")
    return parser


def _write(path: str, text: str) -> bool:
    try:
        Path(path).write_text(text)
    except OSError as error:
        say(f"cannot write {path}: {error.strerror}")
        return False
    return True
