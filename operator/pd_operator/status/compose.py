"""The whole status subresource, and whether it has to be written."""

from collections.abc import Mapping
from typing import Any

from pd_operator.api.status import (
    LatencyStatus,
    PDDeploymentStatus,
    ScalingByTier,
    ScalingStatus,
    TierStatus,
)
from pd_operator.autoscale.decision import TierDecision
from pd_operator.observe import Manifest
from pd_operator.status import conditions, traffic
from pd_operator.status.facts import Facts, Verdict
from pd_shared import labels


def status(facts: Facts, time: str) -> Manifest:
    """The status after a reconcile at `time` (RFC 3339)."""
    metadata, before = facts.deployment.metadata, facts.deployment.status
    previous = conditions.read(before)
    shown: Mapping[str, str] = before.get("latency") or {}
    ttft, tpot = traffic.latency(
        facts.outlook.traffic, (shown.get("ttft", ""), shown.get("tpot", ""))
    )
    return _json(
        PDDeploymentStatus(
            observed_generation=metadata.generation,
            mode=facts.deployment.spec.mode.value,
            url=facts.url,
            spec_hash=facts.spec_hash,
            pairing=facts.desired.pairing,
            prefill=_tier(facts, labels.PREFILLER),
            decode=_tier(facts, labels.DECODER),
            scaling=_scaling(facts, before.get("scaling") or {}, time),
            latency=LatencyStatus(ttft=ttft, tpot=tpot) if ttft or tpot else None,
            conditions=conditions.merged(
                previous, conditions.verdicts(facts, previous), metadata.generation, time
            ),
        )
    )


def invalid_status(
    before: Mapping[str, Any], generation: int, reason: str, message: str, time: str
) -> Manifest:
    """The status of an invalid spec: as before but for Valid and Ready."""
    previous = conditions.read(before)
    kept = {
        kind: Verdict(condition.status, condition.reason, condition.message)
        for kind, condition in previous.items()
    }
    now = {**kept, **conditions.invalid(reason, message)}
    merged = conditions.merged(previous, now, generation, time)
    return {
        **before,
        "observedGeneration": generation,
        "conditions": [
            # The other conditions were not looked at: they still tell of an older generation.
            c.model_dump(by_alias=True)
            if c.type in ("Ready", "Valid")
            else previous[c.type].model_dump(by_alias=True)
            for c in merged
        ],
    }


def patch(metadata: Mapping[str, Any], api_version: str, kind: str, new: Manifest) -> Manifest:
    """What is sent to the status subresource; the uid keeps it from a namesake."""
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {key: metadata[key] for key in ("name", "namespace", "uid")},
        "status": new,
    }


def changed(before: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Whether the status differs from what is there; other writers' conditions do not count."""
    ours = [c for c in before.get("conditions") or () if c.get("type") in conditions.ORDER]
    return _sorted({**before, "conditions": ours}) != _sorted(new)


def _sorted(status: Mapping[str, Any]) -> dict[str, Any]:
    # The API server keeps the order of a map list as first written.
    listed = sorted(status.get("conditions") or (), key=lambda c: str(c["type"]))
    return {**status, "conditions": listed}


def _json(model: PDDeploymentStatus) -> Manifest:
    return model.model_dump(by_alias=True, exclude_none=True, mode="json")


def _tier(facts: Facts, component: str) -> TierStatus | None:
    tier, found = facts.tier(component), facts.snapshot.tier(component)
    if tier is None and not found:
        return None
    name = facts.deployment.metadata.name
    return TierStatus(
        replicas=sum(s.pods for s in found),
        ready_replicas=sum(s.ready for s in found),
        updated_replicas=sum(s.pods for s in found if tier is not None and s.name == tier.name),
        desired_replicas=facts.wanted(component),
        revision="" if tier is None else tier.revision,
        selector=f"{labels.DEPLOYMENT}={name},{labels.COMPONENT}={component}",
    )


def _scaling(facts: Facts, before: Mapping[str, Any], time: str) -> ScalingByTier | None:
    outlook = facts.outlook
    if outlook.prefill is None and outlook.decode is None:
        return None
    return ScalingByTier(
        prefill=_decision(outlook.prefill, before.get("prefill"), time),
        decode=_decision(outlook.decode, before.get("decode"), time),
    )


def _decision(
    decision: TierDecision | None, before: Mapping[str, Any] | None, time: str
) -> ScalingStatus | None:
    if decision is None:
        return None
    new = {
        "current": decision.current,
        "desired": decision.desired,
        "reason": str(decision.reason),
    }
    same = before is not None and all(before.get(key) == value for key, value in new.items())
    if before is not None and same:
        # The same decision again: its words with other numbers are no news.
        return ScalingStatus.model_validate(before)
    return ScalingStatus(
        current=decision.current,
        desired=decision.desired,
        reason=str(decision.reason),
        message=decision.message,
        time=time,
    )
