"""Reads the API server's audit log: who wrote what."""

import json
import time
from dataclasses import dataclass
from pathlib import Path

from tools.paths import CLUSTER

LOG = CLUSTER / "logs" / "audit.log"
_WRITES = frozenset({"create", "update", "patch", "delete", "deletecollection"})


@dataclass(frozen=True)
class Write:
    """One write that the API server accepted or refused."""

    user: str
    verb: str
    resource: str
    name: str


def writes(user: str, start: int, log: Path = LOG) -> list[Write]:
    """Writes of a user in the log behind byte `start`, without those of its Lease."""
    found = []
    with log.open("rb") as lines:
        lines.seek(start)
        for line in lines:
            if not line.endswith(b"\n"):
                break  # the API server is still writing it
            event = json.loads(line)
            if event["user"]["username"] != user or event["verb"] not in _WRITES:
                continue
            target = event.get("objectRef", {})
            resource = target.get("resource", "")
            if target.get("subresource"):
                resource += f"/{target['subresource']}"
            if event["stage"] == "ResponseComplete" and resource != "leases":
                found.append(Write(user, event["verb"], resource, target.get("name", "")))
    return found


def end(log: Path = LOG) -> int:
    """Where the log ends now."""
    return log.stat().st_size


def wait_quiet(user: str, seconds: float, timeout: float, log: Path = LOG) -> bool:
    """Whether a time of `seconds` without any write of the user began within `timeout`."""
    deadline = time.monotonic() + timeout
    while time.monotonic() < deadline:
        start = end(log)
        time.sleep(seconds)
        if not writes(user, start, log):
            return True
    return False
