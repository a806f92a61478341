"""RDMAReady: what the preflights of the engine pods found."""

from pd_operator.build import names
from pd_operator.build.parts.preflight import checked
from pd_operator.plan import current
from pd_operator.pods import PodView
from pd_operator.preflight import PEER_UNREACHABLE, TCP_FALLBACK, PreflightResult
from pd_operator.status.facts import Facts, Verdict

_TOLD = 3
"""Pods of one fault that are named."""


def rdma_ready(facts: Facts) -> Verdict | None:
    """RDMAReady: RDMA can work in all engine pods of the current revisions; None where nothing
    checks it. A peer that cannot be reached may be one that has not started: it is told only.
    """
    if not checked(facts.deployment.spec):
        return None
    pods = _pods(facts)
    found = [(pod, pod.preflight) for pod in pods if pod.preflight is not None]
    faults = [(pod, result) for pod, result in found if not result.ok]
    # What keeps an engine from starting comes before what only makes it slow.
    faults.sort(key=lambda fault: (fault[1].reason == TCP_FALLBACK, fault[0].name))
    if faults:
        reason = faults[0][1].reason
        same = [(pod, result) for pod, result in faults if result.reason == reason]
        return Verdict("False", reason, _told(same, len(pods)))
    if not pods or len(found) < len(pods):
        return Verdict("Unknown", "Checking", f"{len(found)} of {len(pods)} engine pods checked")
    unreached = [(pod, result) for pod, result in found if result.reason == PEER_UNREACHABLE]
    if unreached:
        return Verdict("True", PEER_UNREACHABLE, _told(unreached, len(pods)))
    devices = sorted({device for _, result in found for device in result.devices})
    return Verdict("True", "Passed", f"{len(pods)} engine pods; devices: {', '.join(devices)}")


def _pods(facts: Facts) -> list[PodView]:
    sets = [current(facts.snapshot, tier) for tier in facts.desired.tiers]
    owners = {one.name for one in sets if one is not None}
    return [
        pod
        for component in names.TIERS
        for pod in facts.snapshot.pods_of(component)
        if pod.owner in owners and not pod.terminating
    ]


def _told(faults: list[tuple[PodView, PreflightResult]], total: int) -> str:
    texts = [
        f"pod {pod.name} on node {pod.node or 'unknown'}: {result.told}"
        for pod, result in faults[:_TOLD]
    ]
    return f"{len(faults)} of {total} engine pods: {'; '.join(texts)}"
