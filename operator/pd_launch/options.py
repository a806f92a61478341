"""The command line."""

from __future__ import annotations

import argparse
import os
import socket
from collections.abc import Sequence
from dataclasses import dataclass

from pd_launch import ports, supervisor
from pd_launch.identity import Identity, identity

KEEPALIVE_SECONDS = 30.0
"""Silence after which a member counts as lost; shorter, and a busy node would restart a group."""


@dataclass(frozen=True)
class GroupOptions:
    """How a member finds its group, and what its engine is told."""

    me: Identity
    leader_address: str
    ranks_per_node: int
    leader_arguments: tuple[str, ...]
    worker_arguments: tuple[str, ...]
    port: int
    health_port: int
    keepalive: float


@dataclass(frozen=True)
class LaunchOptions:
    """What `launch` is told."""

    command: tuple[str, ...]
    health_port: int
    kill_seconds: float
    group: GroupOptions | None
    """None for an engine in one pod."""
    environment: str
    """File of the preflight; "" for none."""


def launch_options(arguments: Sequence[str]) -> LaunchOptions:
    """Parse what comes after `launch`; exits with code 2 and a message when it is wrong."""
    parser = _parser()
    own, command = split(arguments)
    if not command:
        parser.error("no command after --")
    found = parser.parse_args(own)
    try:
        group = _group(found) if found.group_size > 1 else None
    except ValueError as error:
        parser.error(str(error))
    return LaunchOptions(
        tuple(command), found.health_port, found.kill_seconds, group, found.environment
    )


def split(arguments: Sequence[str]) -> tuple[list[str], list[str]]:
    """The launcher's own arguments, and the engine's: those after the first `--`."""
    own = list(arguments)
    if "--" not in own:
        return own, []
    at = own.index("--")
    return own[:at], own[at + 1 :]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="pd_launch launch",
        usage="%(prog)s [options] -- COMMAND [ARGUMENT…]",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--health-port", type=int, default=ports.HTTP, help="of the engine")
    add(
        "--kill-seconds",
        type=float,
        default=supervisor.KILL_SECONDS,
        help="after which an engine that is told to end while it starts is killed",
    )
    add("--environment", default="", help="file that the preflight wrote")
    add("--group-size", type=int, default=1, help="pods of one replica")
    add("--pod", default="", help="this pod's name; default: $POD_NAME, or the host's name")
    add("--service", default="", help="the StatefulSet's headless Service")
    add("--namespace", default="")
    add("--cluster-domain", default="cluster.local")
    add("--leader-address", default="", help="instead of the leader's DNS name")
    add("--revision", default="", help="what all members must have in common")
    add("--ranks-per-node", type=int, default=1, help="for {start_rank}")
    add("--leader-arg", action="append", default=[], help="engine argument of the leader alone")
    add("--worker-arg", action="append", default=[], help="engine argument of the others")
    add("--keepalive-seconds", type=float, default=KEEPALIVE_SECONDS)
    add("--group-port", type=int, default=ports.GROUP)
    add("--group-health-port", type=int, default=ports.GROUP_HEALTH)
    return parser


def _group(found: argparse.Namespace) -> GroupOptions:
    pod = found.pod or os.environ.get("POD_NAME") or socket.gethostname()
    me = identity(pod, found.group_size, found.revision)
    if not found.leader_address and not (found.service and found.namespace):
        raise ValueError("a group needs --service and --namespace")
    return GroupOptions(
        me=me,
        leader_address=found.leader_address
        or me.leader_address(found.service, found.namespace, found.cluster_domain),
        ranks_per_node=found.ranks_per_node,
        leader_arguments=tuple(found.leader_arg),
        worker_arguments=tuple(found.worker_arg),
        port=found.group_port,
        health_port=found.group_health_port,
        keepalive=found.keepalive_seconds,
    )
