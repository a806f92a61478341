"""All conditions of a PDDeployment: one writer each, and Ready as their summary."""

from collections.abc import Mapping
from typing import Any, Final

from pydantic import ValidationError

from pd_operator.api.status import Condition
from pd_operator.checks.compatibility import version_warning
from pd_operator.status import model, rdma, traffic, workloads
from pd_operator.status.facts import Facts, Previous, Verdict

_MESSAGE_MAX: Final = 4096
ORDER: Final = (
    "Ready",
    "Valid",
    "Progressing",
    "ModelReady",
    "PrefillReady",
    "DecodeReady",
    "ProxyReady",
    "KVStoreReady",
    "RDMAReady",
    "KVTransferVerified",
    "ScalingActive",
    "SLOMet",
)
"""All types, in the order in which they are shown."""

_SUMMED: Final = ("Valid", "PrefillReady", "DecodeReady", "ProxyReady", "KVStoreReady")


def verdicts(facts: Facts, previous: Previous) -> dict[str, Verdict]:
    """What each condition says now; those that do not apply are absent."""
    found: dict[str, Verdict | None] = {
        "Valid": _valid(facts),
        "Progressing": workloads.progressing(facts),
        "ModelReady": model.model_ready(facts),
        "PrefillReady": workloads.prefill_ready(facts),
        "DecodeReady": workloads.decode_ready(facts),
        "ProxyReady": workloads.proxy_ready(facts),
        "KVStoreReady": workloads.kv_store_ready(facts),
        "RDMAReady": rdma.rdma_ready(facts),
        "KVTransferVerified": traffic.kv_transfer_verified(facts, previous),
        "ScalingActive": traffic.scaling_active(facts),
        "SLOMet": traffic.slo_met(facts, previous),
    }
    present = {kind: verdict for kind, verdict in found.items() if verdict is not None}
    return {"Ready": ready(facts, present), **present}


def _valid(facts: Facts) -> Verdict:
    warning = version_warning(facts.deployment)
    return Verdict("True", "EngineVersionUnknown", warning) if warning else Verdict("True", "Valid")


def ready(facts: Facts, others: Mapping[str, Verdict]) -> Verdict:
    """Ready: the first that is not right, or that all is."""
    blocked = workloads.applied(facts)
    if blocked is not None:
        return blocked
    for kind in _SUMMED:
        verdict = others.get(kind)
        if verdict is not None and verdict.status != "True":
            cause = _cause(verdict, others.get("ModelReady"))
            return Verdict("False", cause.reason, cause.message)
    progress = others["Progressing"]
    if progress.reason == workloads.ROLLING_OUT:
        # All new pods are ready, and some of an old revision still answer requests.
        return Verdict("False", progress.reason, progress.message)
    moved = others.get("KVTransferVerified")
    if moved is not None and moved.status == "False":
        return Verdict("False", moved.reason, moved.message)
    return Verdict("True", "Ready", f"serving at {facts.url}")


def _cause(verdict: Verdict, downloaded: Verdict | None) -> Verdict:
    """What a tier waits for that starts: engines that run already need no download."""
    waits = verdict.reason == workloads.STARTING
    return downloaded if waits and downloaded and downloaded.status != "True" else verdict


def invalid(reason: str, message: str) -> dict[str, Verdict]:
    """The two conditions that an invalid spec changes."""
    verdict = Verdict("False", reason, f"{message}. Children stay as they are until it is mended")
    return {"Ready": verdict, "Valid": verdict}


def merged(
    previous: Previous, now: Mapping[str, Verdict], generation: int, time: str
) -> tuple[Condition, ...]:
    """The conditions to write; the time of transition moves only where the status flips."""
    conditions = []
    for kind in ORDER:
        verdict = now.get(kind)
        if verdict is None:
            continue
        before = previous.get(kind)
        flipped = before is None or before.status != verdict.status
        conditions.append(
            Condition(
                type=kind,
                status=verdict.status,
                observed_generation=generation,
                last_transition_time=time
                if before is None or flipped
                else before.last_transition_time,
                reason=verdict.reason,
                message=verdict.message[:_MESSAGE_MAX],
            )
        )
    return tuple(conditions)


def read(status: Mapping[str, Any]) -> Previous:
    """The conditions in a status as read; what cannot be understood is left out."""
    found: Previous = {}
    for raw in status.get("conditions") or ():
        try:
            condition = Condition.model_validate(raw)
        except ValidationError:
            continue
        if condition.type in ORDER:
            found[condition.type] = condition
    return found
