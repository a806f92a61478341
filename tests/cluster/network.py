"""What the cluster changes in the machine's network and kernel settings, and taking it back."""

import json
import shlex
import socket
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from tests.cluster.command import attempt, run
from tests.cluster.layout import ADDRESS, CLUSTER_CIDR, GATEWAY, SERVICE_CIDR

_SYSCTL: Final = Path("/proc/sys")
SETTINGS: Final = (
    "net/ipv4/ip_forward",  # set here; the others by the kubelet
    "kernel/keys/root_maxbytes",
    "kernel/keys/root_maxkeys",
    "kernel/panic",
    "kernel/panic_on_oops",
    "vm/overcommit_memory",
    "vm/panic_on_oom",
)
_FORWARD: Final = (("-s", CLUSTER_CIDR), ("-d", CLUSTER_CIDR))
_PROXY_TABLES: Final = ("ip", "ip6")


def settings() -> dict[str, str]:
    """The kernel's settings that the cluster changes, as they are now."""
    paths = {name: _SYSCTL / name for name in SETTINGS}
    return {name: path.read_text().strip() for name, path in paths.items() if path.exists()}


def restore(saved: dict[str, str]) -> None:
    """Give the kernel's settings back the values that they had."""
    for name, value in saved.items():
        path = _SYSCTL / name
        try:
            if name in SETTINGS and path.read_text().strip() != value:
                path.write_text(value)
        except OSError:
            continue  # not writable here: then the cluster could not change it either


def tables() -> list[str]:
    """Families and names of the packet filter's tables."""
    done = attempt("nft", "-j", "list", "tables")
    if not done:
        return []
    objects = [entry.get("table") for entry in json.loads(done)["nftables"]]
    return [f"{table['family']} {table['name']}" for table in objects if table]


def connects(address: str, port: int) -> bool:
    """Whether something takes connections there."""
    try:
        with socket.create_connection((address, port), timeout=1):
            return True
    except OSError:
        return False


def set_up() -> None:
    """The node's address, and forwarding between pods."""
    run(["ip", "address", "replace", f"{ADDRESS}/32", "dev", "lo"])
    run(["ip", "link", "set", "lo", "up"])
    # The packet filter gives a Service's address another target, but the kernel first wants a
    # route to it, which a machine without a default route has not.
    run(["ip", "route", "replace", SERVICE_CIDR, "dev", "lo", "src", ADDRESS])
    forward = _SYSCTL / "net/ipv4/ip_forward"
    if forward.read_text().strip() != "1":
        forward.write_text("1")
    if "-P FORWARD DROP" in attempt("iptables", "-w", "-S", "FORWARD"):  # as Docker sets it
        for match in _FORWARD:
            run(["iptables", "-w", "-I", "FORWARD", *match, "-j", "ACCEPT"])


def tear_down(tables_before: Sequence[str]) -> None:
    """Remove rules, addresses and devices of a cluster; quiet about what is not there."""
    present = tables()
    for family in _PROXY_TABLES:
        if f"{family} kube-proxy" in present:
            attempt("nft", "delete", "table", family, "kube-proxy")
    if any(table.endswith((" nat", " filter")) for table in present) or not present:
        for match in _FORWARD:
            while "ACCEPT" in _forwarded(match):
                attempt("iptables", "-w", "-D", "FORWARD", *match, "-j", "ACCEPT")
        _remove_port_maps()
    for table in tables():
        if table not in tables_before and _is_bare(table):
            attempt("nft", "delete", "table", *table.split())
    for name in devices(attempt("ip", "-j", "-4", "address", "show")):
        attempt("ip", "link", "delete", name)
    attempt("ip", "route", "delete", SERVICE_CIDR, "dev", "lo")
    attempt("ip", "address", "delete", f"{ADDRESS}/32", "dev", "lo")


def devices(addresses: str) -> list[str]:
    """The host's ends of pods' links, in what `ip -j address` printed."""
    return [
        entry["ifname"]
        for entry in json.loads(addresses or "[]")
        if any(info.get("local") == GATEWAY for info in entry.get("addr_info", []))
        and entry["ifname"].startswith("veth")
    ]


def port_map_removals(rules: str) -> list[list[str]]:
    """What removes the CNI plugin portmap's chains, given what `iptables -t nat -S` printed."""
    lines = [shlex.split(line) for line in rules.splitlines()]
    chains = [words[1] for words in lines if words[:1] == ["-N"] and _is_port_map(words[1])]
    jumps = [
        ["-D", *words[1:]]
        for words in lines
        if words[:1] == ["-A"] and not _is_port_map(words[1]) and _is_port_map(words[-1])
    ]
    return [*jumps, *(["-F", name] for name in chains), *(["-X", name] for name in chains)]


def _is_port_map(chain: str) -> bool:
    return chain.startswith(("CNI-HOSTPORT-", "CNI-DN-"))


def _remove_port_maps() -> None:
    for program in ("iptables", "ip6tables"):
        for words in port_map_removals(attempt(program, "-w", "-t", "nat", "-S")):
            attempt(program, "-w", "-t", "nat", *words)


def _forwarded(match: tuple[str, str]) -> str:
    rules = attempt("iptables", "-w", "-S", "FORWARD").splitlines()
    return next((rule for rule in rules if " ".join(match) in rule), "")


def _is_bare(table: str) -> bool:
    """Whether a table is one that iptables made, without a rule and without a policy."""
    family, name = table.split()
    listing = attempt("nft", "-j", "list", "table", family, name)
    if family not in ("ip", "ip6") or name not in ("nat", "filter", "mangle") or not listing:
        return False
    entries: list[dict[str, Any]] = json.loads(listing)["nftables"]
    drops = [e for e in entries if e.get("chain", {}).get("policy", "accept") != "accept"]
    return not drops and not any("rule" in entry for entry in entries)
