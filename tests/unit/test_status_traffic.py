"""Conditions and texts of what the proxies measure."""

from dataclasses import replace

import pytest

from pd_operator.autoscale.decision import Reason
from pd_operator.plan import Replicas
from pd_operator.status import compose
from pd_operator.traffic import Outlook
from tests.made import others, snapshot, tiers, wanted
from tests.status_facts import AUTO, NOW, condition, decision, facts, told, traffic


@pytest.mark.parametrize(
    ("outlook", "status", "reason"),
    [
        (Outlook(), "Unknown", "NoTrafficYet"),
        (traffic(0, 0), "Unknown", "NoTrafficYet"),
        (traffic(100, 100, fresh=False), "Unknown", "NoTrafficYet"),
        (traffic(100, 90), "True", "KVMoves"),
        (traffic(100, 89, requests=40), "False", "KVNotMoving"),
        (traffic(100, 0), "False", "KVNotMoving"),
        (traffic(100, 0, requests=3, lasting=False), "False", "KVNotMoving"),
        # One transfer, or two, are no rule; nor is one long prompt among many.
        (traffic(100, 0, requests=1, lasting=False), "Unknown", "TransferLost"),
        (traffic(100, 50, requests=2), "Unknown", "TransferLost"),
        (traffic(100, 66, requests=3), "Unknown", "TransferLost"),
        (traffic(100, 50, requests=100, lasting=False), "Unknown", "TransferLost"),
        # The newest requests are counted before their tokens are.
        (traffic(100, 50, settled=(50, 50)), "True", "KVMoves"),
        (traffic(100, 50, settled=(0, 0)), "Unknown", "NoTrafficYet"),
        (traffic(100, 50, settled=(50, 20)), "False", "KVNotMoving"),
    ],
)
def test_kv_transfer_is_verified_by_what_moved(outlook: Outlook, status: str, reason: str) -> None:
    assert told("KVTransferVerified", facts(outlook=outlook)) == (status, reason)


def test_kv_that_does_not_move_makes_the_whole_not_ready() -> None:
    seen = facts(outlook=traffic(143, 0))
    assert told("Ready", seen) == ("False", "KVNotMoving")
    assert "0 of 143 prompt tokens moved" in condition("Ready", seen)["message"]


@pytest.mark.parametrize("connector", ["Mooncake", "Nixl", "LMCache"])
def test_the_message_names_the_connector(connector: str) -> None:
    spec = {"kvTransfer": {"connector": connector}}
    message = condition("KVTransferVerified", facts(spec=spec, outlook=traffic(9, 0)))["message"]
    assert f"errors of connector {connector}," in message


def test_a_lost_transfer_is_told_and_changes_no_verdict() -> None:
    lost = traffic(143, 0, requests=1)
    moves = compose.status(facts(outlook=traffic(100, 100)), NOW)
    seen = facts(status=moves, outlook=lost)
    assert told("KVTransferVerified", seen) == ("True", "TransferLost")
    assert "0 of 143 prompt tokens moved" in condition("KVTransferVerified", seen)["message"]
    assert told("Ready", seen)[0] == "True"
    broken = compose.status(facts(outlook=traffic(100, 0)), NOW)
    assert told("KVTransferVerified", facts(status=broken, outlook=lost)) == (
        "False", "KVNotMoving",
    )  # fmt: skip


def test_without_traffic_the_last_verdict_stands() -> None:
    before = compose.status(facts(outlook=traffic(100, 0)), NOW)
    assert told("KVTransferVerified", facts(status=before)) == ("False", "KVNotMoving")
    healed = facts(status=before, outlook=traffic(100, 100))
    assert told("KVTransferVerified", healed) == ("True", "KVMoves")


@pytest.mark.parametrize(
    ("mode", "reason", "expected"),
    [
        ("Off", None, ("False", "Off")),
        ("Auto", None, ("False", "NoMetrics")),
        ("Auto", Reason.NO_METRICS, ("False", "NoMetrics")),
        ("Auto", Reason.STALE_METRICS, ("False", "NoMetrics")),
        ("Auto", Reason.NO_TRAFFIC, ("True", "Scaling")),
        ("Advise", Reason.STEADY, ("False", "AdviseOnly")),
    ],
)
def test_scaling_active(mode: str, reason: Reason | None, expected: tuple[str, str]) -> None:
    spec = {"autoscaling": {"mode": mode, "slo": {"ttft": "1s"}}}
    outlook = Outlook() if reason is None else Outlook(prefill=decision(reason))
    assert told("ScalingActive", facts(spec=spec, outlook=outlook)) == expected


@pytest.mark.parametrize(
    ("ttft", "tpot", "expected"),
    [
        (0.4, 0.04, ("True", "WithinTargets")),
        (0.6, 0.04, ("False", "TTFTAboveTarget")),
        (0.4, 0.06, ("False", "TPOTAboveTarget")),
        (None, None, ("Unknown", "NotMeasured")),
        (None, 0.04, ("True", "WithinTargets")),
    ],
)
def test_slo_met(ttft: float | None, tpot: float | None, expected: tuple[str, str]) -> None:
    outlook = traffic(1, 1, ttft_p95=ttft, tpot_p95=tpot)
    assert told("SLOMet", facts(spec=AUTO, outlook=outlook)) == expected


def test_slo_met_waits_for_traffic_and_keeps_the_last_verdict() -> None:
    assert told("SLOMet", facts(spec=AUTO)) == ("Unknown", "NoTrafficYet")
    missed = facts(spec=AUTO, outlook=traffic(1, 1, ttft_p95=0.6))
    before = compose.status(missed, NOW)
    assert told("SLOMet", facts(spec=AUTO, status=before)) == ("False", "TTFTAboveTarget")


def test_latencies_are_texts_that_outlive_the_traffic() -> None:
    outlook = traffic(1, 1, ttft_p95=0.1234, tpot_p95=0.0123)
    written = compose.status(facts(outlook=outlook), NOW)
    assert written["latency"] == {"ttft": "0.123s", "tpot": "0.0123s"}
    assert compose.status(facts(status=written), NOW)["latency"] == written["latency"]
    assert "latency" not in compose.status(facts(), NOW)


@pytest.mark.parametrize(
    ("mode", "ready", "expected"),
    [
        ("Auto", 2, ("True", "ScalingUp")),
        ("Auto", 1, ("False", "Starting")),
        ("Off", 2, ("False", "Starting")),
    ],
)
def test_a_step_up_of_the_autoscaler_leaves_the_whole_ready(
    mode: str, ready: int, expected: tuple[str, str]
) -> None:
    spec = {"autoscaling": {"mode": mode, "slo": {"tpot": "50ms"}, "decode": {"min": 2, "max": 4}}}
    children = wanted(spec)
    sets = tiers(children, replicas=3)
    sets[1]["status"]["readyReplicas"] = ready
    sets[0]["spec"]["replicas"] = 1
    seen = replace(facts(snapshot([*others(children), *sets]), spec=spec), replicas=Replicas(1, 3))
    assert told("DecodeReady", seen) == expected
    assert told("Ready", seen)[0] == expected[0]
    assert told("Progressing", seen) == ("True", expected[1])
