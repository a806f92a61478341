"""Conditions of what runs: the tiers, the proxy, the KV store, and the progress of all of them."""

from pd_operator.api.autoscaling import Mode
from pd_operator.api.kv_transfer import Connector
from pd_operator.api.store import StoreMode
from pd_operator.observe import DeploymentView
from pd_operator.plan import current, serves, superseded
from pd_operator.pods import PodView
from pd_operator.status.facts import Facts, Verdict
from pd_operator.status.model import DOWNLOADING, model_ready
from pd_shared import labels

_WORDS = {
    labels.PREFILLER: "prefillers",
    labels.DECODER: "decoders",
    labels.PROXY: "proxies",
    labels.MOONCAKE: "Mooncake master",
    labels.STORE_POOL: "store pods",
    labels.LMCACHE_SERVER: "LMCache server",
}
READY = "AllReady"
ROLLING_OUT = "RollingOut"
SCALING_UP = "ScalingUp"
STARTING = "Starting"
NOT_CREATED = "NotCreated"
WAITING_FOR_DELETION = "WaitingForDeletion"
_WAITING = frozenset({STARTING, NOT_CREATED, WAITING_FOR_DELETION, DOWNLOADING})
"""Reasons that waiting may cure."""


def prefill_ready(facts: Facts) -> Verdict | None:
    """PrefillReady: all prefillers of the current revision are ready; not in mode Colocated."""
    return _tier(facts, labels.PREFILLER)


def decode_ready(facts: Facts) -> Verdict | None:
    """DecodeReady: all decoders of the current revision are ready."""
    return _tier(facts, labels.DECODER)


def proxy_ready(facts: Facts) -> Verdict:
    """ProxyReady: all proxies are ready and of the current template."""
    return _deployment(facts, labels.PROXY)


def kv_store_ready(facts: Facts) -> Verdict | None:
    """KVStoreReady: what holds and finds shared KV is ready; None where nothing does."""
    spec = facts.deployment.spec
    if spec.colocated:
        return None
    if spec.connector is Connector.LMCACHE_MP:
        return _deployment(facts, labels.LMCACHE_SERVER)
    if not spec.uses_store:
        return None
    master = _deployment(facts, labels.MOONCAKE)
    if master.status != "True" or spec.mooncake.store.mode is not StoreMode.STANDALONE:
        return master
    pool = _deployment(facts, labels.STORE_POOL)
    if pool.status != "True":
        return pool
    return Verdict("True", pool.reason, f"{master.message}; {pool.message}")


def progressing(facts: Facts) -> Verdict:
    """Progressing: something is on its way; False where all is done or waiting will not help."""
    looked = (model_ready, prefill_ready, decode_ready, proxy_ready, kv_store_ready)
    verdicts = [verdict for look in looked if (verdict := look(facts)) is not None]
    blocked = applied(facts)
    verdicts = verdicts if blocked is None else [blocked, *verdicts]
    stuck = next((v for v in verdicts if v.status != "True" and v.reason not in _WAITING), None)
    if stuck is not None:
        return Verdict("False", stuck.reason, stuck.message)
    old = superseded(facts.snapshot, facts.desired)
    if old:
        names = ", ".join(sorted(s.name for s in old))
        return Verdict("True", ROLLING_OUT, f"the new revision replaces {names}")
    waiting = next((v for v in verdicts if v.status != "True"), None)
    if waiting is not None:
        return Verdict("True", waiting.reason, waiting.message)
    growing = next((v for v in verdicts if v.reason == SCALING_UP), None)
    if growing is not None:
        return Verdict("True", SCALING_UP, growing.message)
    return Verdict("False", "Complete")


def applied(facts: Facts) -> Verdict | None:
    """What kept children from being written; None where all were."""
    outcome = facts.outcome
    if outcome.conflicts:
        names = ", ".join(str(ref) for ref in outcome.conflicts)
        return Verdict(
            "False",
            "NameConflict",
            f"{names}: exists already and belongs to somebody else; delete it or rename this"
            " PDDeployment",
        )
    if outcome.errors:
        texts = "; ".join(f"{failed.ref}: {failed.error.message}" for failed in outcome.errors)
        return Verdict("False", "ApplyFailed", texts)
    if outcome.waiting:
        names = ", ".join(str(ref) for ref in outcome.waiting)
        return Verdict("False", WAITING_FOR_DELETION, f"{names}: is being deleted, then made anew")
    return None


def _tier(facts: Facts, component: str) -> Verdict | None:
    tier, wanted, word = facts.tier(component), facts.wanted(component), _WORDS[component]
    if tier is None:
        return None
    found = current(facts.snapshot, tier)
    if found is None:
        return Verdict("False", NOT_CREATED, f"the {word} are not created yet")
    counts = f"{min(found.ready, wanted)} of {wanted} {word} ready"
    if serves(facts.snapshot, tier, wanted):
        return Verdict("True", READY, counts)
    complaint = facts.snapshot.complaints.get(found.name)
    if complaint:
        return Verdict("False", "FailedCreate", f"{counts}; no pod can be created: {complaint}")
    pods = [pod for pod in facts.snapshot.pods_of(component) if pod.owner == found.name]
    failing = _failing(counts, pods)
    if failing is None and _serves_enough(facts, component, found.ready):
        return Verdict("True", SCALING_UP, counts)
    return failing or Verdict("False", STARTING, counts)


def _serves_enough(facts: Facts, component: str, ready: int) -> bool:
    """Whether a tier that the autoscaler enlarges has at least its minimum ready.

    Each step up would otherwise make the whole not Ready, while it answers as before.
    """
    autoscaling = facts.deployment.spec.autoscaling
    if autoscaling.mode is not Mode.AUTO:
        return False
    bounds = autoscaling.prefill if component == labels.PREFILLER else autoscaling.decode
    return ready >= bounds.min


def _failing(counts: str, pods: list[PodView]) -> Verdict | None:
    failing = sorted(
        (pod for pod in pods if pod.failure and not pod.terminating), key=lambda pod: pod.name
    )
    for pod in failing:
        if pod.failure is not None:
            text = f"{counts}; pod {pod.name}: {pod.failure.message}"
            return Verdict("False", pod.failure.reason, text)
    return None


def _deployment(facts: Facts, component: str) -> Verdict:
    word = _WORDS[component]
    found = _find(facts, component)
    if found is None:
        return Verdict("False", NOT_CREATED, f"{word}: not created yet")
    counts = f"{min(found.ready, found.replicas)} of {found.replicas} {word} ready"
    if found.complete:
        return Verdict("True", READY, counts)
    if found.problem:
        return Verdict("False", "FailedCreate", f"{counts}; no pod can be created: {found.problem}")
    return _failing(counts, list(facts.snapshot.pods_of(component))) or Verdict(
        "False", STARTING, counts
    )


def _find(facts: Facts, component: str) -> DeploymentView | None:
    return next((d for d in facts.snapshot.deployments if d.component == component), None)
