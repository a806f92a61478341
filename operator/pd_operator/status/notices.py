"""What becomes an Event on the PDDeployment: transitions, never states."""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from pd_operator.api.autoscaling import Mode
from pd_operator.api.status import Condition
from pd_operator.observe import Snapshot
from pd_operator.plan import current
from pd_operator.status import conditions
from pd_operator.status.facts import Facts
from pd_shared import labels

_GOOD: Final = {
    "Ready": ("Ready", "{message}"),
    "KVTransferVerified": ("KVTransferVerified", "{message}"),
}
"""Conditions whose turning True is told: reason and text of the Event."""
_BAD: Final = (
    "Valid",
    "ModelReady",
    "PrefillReady",
    "DecodeReady",
    "ProxyReady",
    "KVStoreReady",
    "RDMAReady",
    "KVTransferVerified",
)
"""Conditions whose new reason for being False is told."""
_ON_THE_WAY: Final = frozenset(
    {"Starting", "NotCreated", "Downloading", "RollingOut", "WaitingForDeletion"}
)


@dataclass(frozen=True)
class Notice:
    """An Event to post. Equal `id`s are the same happening: it is posted once."""

    type: Literal["Normal", "Warning"]
    reason: str
    message: str
    id: str


def transitions(before: Mapping[str, Any], after: Mapping[str, Any]) -> tuple[Notice, ...]:
    """What the conditions of two statuses tell, the later after the earlier."""
    old, new = conditions.read(before), conditions.read(after)
    return tuple(_told(old, new))


def _told(old: Mapping[str, Condition], new: Mapping[str, Condition]) -> Iterator[Notice]:
    for kind, condition in new.items():
        last = old.get(kind)
        if last is not None and _same(kind, last, condition):
            continue
        mark = _mark(kind, last, condition)
        if condition.status == "True" and kind in _GOOD and (last is None or last.status != "True"):
            reason, text = _GOOD[kind]
            yield Notice("Normal", reason, text.format(message=condition.message), mark)
        if condition.status != "False" or condition.reason in _ON_THE_WAY:
            continue
        if kind in _BAD or (kind == "Ready" and condition.reason in _APPLY):
            yield Notice("Warning", condition.reason, condition.message, mark)


def _same(kind: str, last: Condition, condition: Condition) -> bool:
    if (last.status, last.reason) != (condition.status, condition.reason):
        return False
    # Two reasons for being invalid differ in their words only.
    return kind != "Valid" or last.message == condition.message


_APPLY: Final = frozenset({"NameConflict", "ApplyFailed"})


def _mark(kind: str, last: Condition | None, condition: Condition) -> str:
    # What was written last is the same until this transition is written: a repeat after a crash
    # in between gives the same mark.
    before = "" if last is None else f"{last.last_transition_time} {last.reason}"
    return digest(kind, before, condition.reason, str(condition.observed_generation))


def writes(facts: Facts, before: Snapshot) -> tuple[Notice, ...]:
    """What the writes of a reconcile tell; `before` is the snapshot that they follow from."""
    return (*_created(facts), *_rollouts(facts), *_scaled(facts, before))


def _created(facts: Facts) -> Iterator[Notice]:
    made = facts.outcome.created
    if made:
        names = ", ".join(sorted(f"{m['kind']} {m['metadata']['name']}" for m in made))
        uids = sorted(str(m["metadata"].get("uid", "")) for m in made)
        yield Notice("Normal", "Created", f"created {names}", digest("created", *uids))


def _rollouts(facts: Facts) -> Iterator[Notice]:
    status = facts.deployment.status
    tiers = (
        ("prefillers", "prefill", facts.tier(labels.PREFILLER)),
        ("decoders", "decode", facts.tier(labels.DECODER)),
    )
    for word, key, tier in tiers:
        last = (status.get(key) or {}).get("revision", "")
        new = "" if tier is None else tier.revision
        if last and last != new:
            what = f"is replaced by {new}" if new else "goes: mode Colocated has none"
            yield Notice(
                "Normal",
                "RollingOut",
                f"{word}: revision {last} {what}",
                digest("rollout", key, last, new, str(status.get("observedGeneration"))),
            )


def _scaled(facts: Facts, before: Snapshot) -> Iterator[Notice]:
    changed = {m["metadata"]["name"] for m in facts.outcome.changed if m["kind"] == "StatefulSet"}
    tiers: Sequence[tuple[str, str, Any]] = (
        ("prefillers", labels.PREFILLER, facts.outlook.prefill),
        ("decoders", labels.DECODER, facts.outlook.decode),
    )
    for word, component, decision in tiers:
        tier, wanted = facts.tier(component), facts.wanted(component)
        found = None if tier is None else current(before, tier)
        if found is None or found.name not in changed or found.replicas == wanted:
            continue
        why = "as the spec says"
        if decision is not None and facts.deployment.spec.autoscaling.mode is Mode.AUTO:
            why = f"{decision.reason}: {decision.message}"
        yield Notice(
            "Normal",
            "Scaled",
            f"{word} {found.replicas} -> {wanted}: {why}",
            digest("scaled", found.ref.uid, found.ref.resource_version),
        )


def digest(*parts: str) -> str:
    """A short name for what the parts say together."""
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
