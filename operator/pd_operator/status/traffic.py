"""Conditions of what the proxies measure: KV transfer, scaling, latency targets."""

from typing import Final

from pd_operator.api.autoscaling import Mode
from pd_operator.api.status import Condition
from pd_operator.api.values import duration_seconds
from pd_operator.autoscale.decision import Reason, TierDecision
from pd_operator.autoscale.proof import MOVED_PART
from pd_operator.status.facts import Facts, Previous, Verdict
from pd_operator.traffic import TrafficView

_BLIND: Final = frozenset({Reason.NO_METRICS, Reason.STALE_METRICS})


def kv_transfer_verified(facts: Facts, previous: Previous) -> Verdict | None:
    """KVTransferVerified: KV really moved from prefillers to decoders, by the decoders' count.

    Absent in mode Colocated, where none is to move.
    """
    if facts.deployment.spec.colocated:
        return None
    traffic = facts.outlook.traffic
    last = previous.get("KVTransferVerified")
    kept = Verdict("Unknown", "NoTrafficYet", "no request told yet whether KV moves")
    if last is not None:
        kept = Verdict(last.status, last.reason, last.message)
    if not traffic.fresh or traffic.kv_expected <= 0:
        return kept
    return _by_what_moved(facts, last, kept)


def _by_what_moved(facts: Facts, last: Condition | None, kept: Verdict) -> Verdict:
    traffic = facts.outlook.traffic
    minutes = round(traffic.window_seconds / 60)
    counts = (
        f"{traffic.kv_moved:.0f} of {traffic.kv_expected:.0f} prompt tokens moved"
        f" in the last {minutes} min"
    )
    if traffic.kv_moved >= MOVED_PART * traffic.kv_expected:
        return Verdict("True", "KVMoves", counts)
    # The decoders' counters are read a moment after the requests are counted: what is missing
    # counts only where it was expected a while ago.
    if traffic.kv_settled_expected <= 0:
        return kept
    if traffic.kv_moves:
        return Verdict("True", "KVMoves", counts)
    return _lost(facts, last, counts)


def _lost(facts: Facts, last: Condition | None, counts: str) -> Verdict:
    traffic = facts.outlook.traffic
    lost = f"{counts}: decoders computed the rest again"
    if traffic.kv_broken:
        return Verdict(
            "False",
            "KVNotMoving",
            f"{lost}; look in the decoders' and prefillers' logs for errors of connector"
            f" {facts.deployment.spec.connector}, and whether their pods reach one another",
        )
    # One transfer may be lost with a pod, and a prompt that has not moved condemns no wire.
    if last is None or last.status == "Unknown":
        return Verdict("Unknown", "TransferLost", f"{lost}; too few requests to tell why")
    if last.status == "False":
        return Verdict(last.status, last.reason, lost)
    return Verdict("True", "TransferLost", f"{lost}; a transfer was lost, and others were not")


def scaling_active(facts: Facts) -> Verdict:
    """ScalingActive: the autoscaler sets the replicas, and has the numbers to do so."""
    mode = facts.deployment.spec.autoscaling.mode
    if mode is Mode.OFF:
        return Verdict("False", "Off", "autoscaling.mode is Off")
    decisions = _decisions(facts)
    blind = next((name for name, decision in decisions if decision.reason in _BLIND), None)
    if not decisions or blind is not None:
        return Verdict(
            "False", "NoMetrics", "the proxies' metrics cannot be read: replicas stay as they are"
        )
    if mode is Mode.ADVISE:
        return Verdict("False", "AdviseOnly", "decisions are published and not carried out")
    return Verdict("True", "Scaling")


def _decisions(facts: Facts) -> list[tuple[str, TierDecision]]:
    named = (("prefill", facts.outlook.prefill), ("decode", facts.outlook.decode))
    return [(name, decision) for name, decision in named if decision is not None]


def slo_met(facts: Facts, previous: Previous) -> Verdict | None:
    """SLOMet: the measured 95th percentiles are within the targets; only where there are some."""
    slo, traffic = facts.deployment.spec.autoscaling.slo, facts.outlook.traffic
    if slo.ttft is None and slo.tpot is None:
        return None
    last = previous.get("SLOMet")
    if not traffic.fresh or traffic.requests <= 0:
        if last is not None:
            return Verdict(last.status, last.reason, last.message)
        return Verdict("Unknown", "NoTrafficYet", "no request was measured yet")
    pairs = (("TTFT", slo.ttft, traffic.ttft_p95), ("TPOT", slo.tpot, traffic.tpot_p95))
    measured = [(n, duration_seconds(t), v) for n, t, v in pairs if t is not None and v is not None]
    if not measured:
        return Verdict("Unknown", "NotMeasured", "no request showed a latency that has a target")
    texts = ", ".join(f"{n} p95 {seconds(v)} (target {seconds(t)})" for n, t, v in measured)
    missed = [name for name, target, value in measured if value > target]
    if missed:
        return Verdict("False", f"{missed[0]}AboveTarget", texts)
    return Verdict("True", "WithinTargets", texts)


def seconds(value: float) -> str:
    """A time as it is shown, such as `0.12s`."""
    return f"{value:.3g}s"


def latency(traffic: TrafficView, previous: tuple[str, str]) -> tuple[str, str]:
    """TTFT and TPOT as shown; those shown last where there was no traffic since."""
    if not traffic.fresh or traffic.requests <= 0:
        return previous
    measured = (traffic.ttft_p95, traffic.tpot_p95)
    return (
        previous[0] if measured[0] is None else seconds(measured[0]),
        previous[1] if measured[1] is None else seconds(measured[1]),
    )
