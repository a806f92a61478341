"""RDMAReady: what the preflights of the engine pods found, and how a pod tells it."""

import json
from typing import Any

import pytest

from pd_operator.observe import Manifest
from pd_operator.preflight import CONTAINER
from tests.made import everything, pod, snapshot, tiers, wanted
from tests.status_facts import condition, facts, told

SPEC: Manifest = {
    "engine": {"image": "engine:1", "version": "0.33.0"},
    "kvTransfer": {"protocol": "rdma"},
    "prefill": {},
    "decode": {},
}


def result(reason: str, *, ok: bool = False, **more: Any) -> str:
    content = {"ok": ok, "reason": reason, "message": "why", "hint": "do this", "devices": []}
    return json.dumps({**content, **more})


PASSED = result("Passed", ok=True, devices=["mlx5_0"], hint="")


def checked(owner: Manifest, message: str, code: int = 0) -> Manifest:
    ended = {"exitCode": code, "message": message}
    status = {"name": CONTAINER, "restartCount": 2, "state": {"terminated": ended}}
    made = pod(owner, initContainerStatuses=[status])
    made["spec"] = {"nodeName": "gpu-1"}
    return made


def seen(prefiller: str | None, decoder: str | None) -> Any:
    children = wanted(SPEC)
    pods = [
        checked(owner, message, 0 if json.loads(message)["ok"] else 1) if message else pod(owner)
        for owner, message in zip(tiers(children), (prefiller, decoder), strict=True)
    ]
    return facts(snapshot(everything(children, ready=0), pods), spec=SPEC)


def test_without_rdma_there_is_no_such_condition() -> None:
    assert condition("RDMAReady", facts()) == {}


def test_all_passed() -> None:
    found = seen(PASSED, PASSED)
    assert told("RDMAReady", found) == ("True", "Passed")
    assert "mlx5_0" in condition("RDMAReady", found)["message"]


def test_what_is_not_checked_yet_is_unknown() -> None:
    assert told("RDMAReady", seen(PASSED, None)) == ("Unknown", "Checking")


@pytest.mark.parametrize("reason", ["DeviceMissing", "PortDown", "GIDMissing", "MemlockTooLow"])
def test_a_fault_names_pod_node_and_what_to_do(reason: str) -> None:
    found = seen(PASSED, result(reason))
    assert told("RDMAReady", found) == ("False", reason)
    message = condition("RDMAReady", found)["message"]
    for word in ("1 of 2", "tiny-decoder-", "gpu-1", "why", "do this"):
        assert word in message
    # Ready says the same rather than an exit code.
    assert told("DecodeReady", found) == ("False", reason)
    assert "do this" in condition("DecodeReady", found)["message"]


def test_what_stops_an_engine_is_told_before_what_makes_it_slow() -> None:
    found = seen(result("TCPFallback"), result("PortDown"))
    assert told("RDMAReady", found) == ("False", "PortDown")


def test_tcp_instead_is_told_and_keeps_nobody_from_being_ready() -> None:
    children = wanted(SPEC)
    pods = [checked(owner, result("TCPFallback")) for owner in tiers(children)]
    found = facts(snapshot(everything(children), pods), spec=SPEC)
    assert told("RDMAReady", found) == ("False", "TCPFallback")
    assert told("DecodeReady", found) == ("True", "AllReady")


def test_a_peer_out_of_reach_is_told_only() -> None:
    found = seen(PASSED, result("PeerUnreachable", ok=True))
    assert told("RDMAReady", found) == ("True", "PeerUnreachable")


def test_words_of_somebody_else_are_not_taken() -> None:
    found = seen(PASSED, json.dumps({"ok": True, "reason": "Invented"}))
    assert told("RDMAReady", found) == ("Unknown", "Checking")
