"""Whether RDMA can work in this pod, told before the engine starts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable

from pd_launch import sysfs
from pd_launch.sysfs import Roots

PASSED = "Passed"
TCP_FALLBACK = "TCPFallback"
PEER_UNREACHABLE = "PeerUnreachable"
REASONS = (
    PASSED,
    "DeviceMissing",
    "PortDown",
    "LinkLayerMismatch",
    "GIDMissing",
    "MTUTooLow",
    "MemlockTooLow",
    "PeermemMissing",
    PEER_UNREACHABLE,
    TCP_FALLBACK,
)

MAX_BYTES = 4096
"""What the kubelet takes as a termination message."""

ROCE_OVERHEAD = 58
"""Bytes of a RoCE v2 packet around its payload, so what a network's MTU must have in addition."""

_MAX_DEVICES = 32


@dataclass(frozen=True)
class Wanted:
    """What is checked; None and empty are not."""

    devices: tuple[str, ...] = ()
    count: int = 1
    port: int = 1
    link_layer: str | None = None
    gid_index: int | None = None
    mtu: int | None = None
    """InfiniBand's: 256 to 4096."""
    memlock_bytes: int | None = None
    peermem: bool = False


@dataclass(frozen=True)
class Finding:
    """The result: the first thing that is wrong, or `Passed`."""

    reason: str
    message: str
    hint: str = ""
    devices: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        """Whether RDMA can be used. A peer out of reach may be one that has just gone."""
        return self.reason in (PASSED, PEER_UNREACHABLE)

    def json(self) -> str:
        """At most 4096 bytes."""
        content: dict[str, Any] = {
            "ok": self.ok,
            "reason": self.reason,
            "message": self.message[:1000],
            "hint": self.hint[:500],
            "devices": list(self.devices[:_MAX_DEVICES]),
        }
        text = json.dumps(content, separators=(",", ":"))
        if len(text) > MAX_BYTES:
            # Escapes may take six bytes for a character.
            content["message"], content["hint"], content["devices"] = self.message[:200], "", []
            text = json.dumps(content, separators=(",", ":"))
        return text


def check(
    wanted: Wanted,
    roots: Roots,
    memlock: int,
    is_device: Callable[[Path], bool] = Path.is_char_device,
) -> Finding:
    """Look at everything; `memlock` is the limit in bytes, -1 when there is none."""
    found = sysfs.allocated(roots, is_device)
    missing = [name for name in wanted.devices if name not in found]
    if missing or len(found) < wanted.count:
        what = f"not given to this pod: {', '.join(missing)}" if missing else "too few"
        return Finding(
            "DeviceMissing",
            f"RDMA devices {what}; it has {', '.join(found) or 'none'}, wanted {wanted.count}",
            "See spec.rdma.resource and whether the node's device plugin offers it.",
            found,
        )
    used = wanted.devices or found
    for device in used:
        problem = _port_problem(wanted, roots, device)
        if problem:
            return Finding(problem[0], problem[1], problem[2], used)
    if wanted.memlock_bytes is not None and 0 <= memlock < wanted.memlock_bytes:
        return Finding(
            "MemlockTooLow",
            f"may lock {memlock} bytes of memory, needs {wanted.memlock_bytes}",
            "Raise LimitMEMLOCK of the container runtime, or run the engine as root with IPC_LOCK.",
            used,
        )
    if wanted.peermem and not sysfs.modules(roots) & {"nvidia_peermem", "nv_peer_mem"}:
        return Finding(
            "PeermemMissing",
            "the kernel module nvidia_peermem is not loaded",
            "Load it on the node, or use DMA-BUF.",
            used,
        )
    return Finding(PASSED, f"{len(used)} RDMA devices can be used", devices=used)


def _port_problem(wanted: Wanted, roots: Roots, device: str) -> tuple[str, str, str] | None:
    port = sysfs.port(roots, device, wanted.port)
    where = f"{device} port {wanted.port}"
    if port.state != "ACTIVE":
        state = port.state or "unknown"
        return "PortDown", f"{where} is {state[:40]}", "See the cable, the switch, `ibstat`."
    if wanted.link_layer and port.link_layer != wanted.link_layer:
        layer = port.link_layer[:40] or "unknown"
        message = f"{where} has the link layer {layer}, wanted {wanted.link_layer}"
        return "LinkLayerMismatch", message, "Choose other devices or another link layer."
    roce = port.link_layer == "Ethernet"
    gids = [
        gid
        for gid in port.gids
        if wanted.gid_index in (None, gid.index) and (not roce or gid.kind == "RoCE v2")
    ]
    if not gids:
        kind = "RoCE v2 GID" if roce else "GID"
        at = "" if wanted.gid_index is None else f" at index {wanted.gid_index}"
        there = ", ".join(str(gid.index) for gid in port.gids if not roce or gid.kind == "RoCE v2")
        message = f"{where} has no {kind}{at}; there are: {there or 'none'}"
        return "GIDMissing", message, "Set the GID index to one of those, or leave it out."
    if wanted.mtu and roce:
        needed = wanted.mtu + ROCE_OVERHEAD
        for name in sorted({gid.interface for gid in gids if gid.interface}):
            has = sysfs.mtu(roots, name)
            if has is not None and has < needed:
                message = f"{where}: {name} has an MTU of {has}, needs {needed}"
                return "MTUTooLow", message, "Raise the network's MTU, or lower the RDMA MTU."
    return None


def with_peers(finding: Finding, unreachable: Sequence[str]) -> Finding:
    """The finding, and the peers that did not answer."""
    if not unreachable or finding.reason != PASSED:
        return finding
    peers = ", ".join(unreachable[:16])
    hint = "They refuse nothing and answer nothing: see NetworkPolicies, routes and firewalls."
    return Finding(PEER_UNREACHABLE, f"no answer from {peers}", hint, finding.devices)


def falling_back(finding: Finding) -> Finding:
    """What is told when TCP is used instead."""
    if finding.ok:
        return finding
    message = f"KV goes over TCP: {finding.reason}: {finding.message}"
    return Finding(TCP_FALLBACK, message, finding.hint, finding.devices)
