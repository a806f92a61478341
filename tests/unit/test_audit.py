"""The audit log's reader: it must be able to see a write."""

import json
from pathlib import Path

from tests.e2e.audit import Write, writes

_USER = "system:serviceaccount:pd-system:pd-operator"


def _event(verb: str, resource: str, user: str = _USER, stage: str = "ResponseComplete") -> str:
    reference = {"resource": resource, "name": "x"}
    return json.dumps(
        {"verb": verb, "stage": stage, "user": {"username": user}, "objectRef": reference}
    )


def test_only_the_users_own_writes_count(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    before = _event("create", "services") + "\n"
    after = [
        _event("get", "services"),
        _event("patch", "leases"),
        _event("patch", "services", user="someone"),
        _event("patch", "services", stage="RequestReceived"),
        _event("patch", "services"),
    ]
    log.write_text(before + "\n".join(after) + "\n")
    assert writes(_USER, len(before), log) == [Write(_USER, "patch", "services", "x")]
    assert len(writes(_USER, 0, log)) == 2


def test_a_line_that_is_still_being_written_waits(tmp_path: Path) -> None:
    log = tmp_path / "audit.log"
    line = _event("patch", "services")
    log.write_text(f"{line}\n{line[:20]}")
    assert len(writes(_USER, 0, log)) == 1
