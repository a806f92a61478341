"""PodDisruptionBudgets: evictions take one pod of a component at a time."""

from pd_operator.api.deployment import PDDeployment
from pd_operator.api.kv_transfer import Connector
from pd_operator.api.store import StoreMode
from pd_operator.build import names
from pd_operator.build.manifest import Manifest, child, selector
from pd_shared import labels


def disruption_budgets(deployment: PDDeployment) -> tuple[Manifest, ...]:
    """One each for the tiers that there are, the proxy, and what holds or finds shared KV."""
    name = deployment.metadata.name
    prefiller = () if deployment.spec.colocated else (labels.PREFILLER,)
    return tuple(
        child(
            deployment,
            "policy/v1",
            "PodDisruptionBudget",
            names.tier(name, component),
            component,
            spec={
                # Of groups too: all pods of one are unready once one is gone, which is more than
                # one, so that no pod of another group may go; the rest of its own may.
                "maxUnavailable": 1,
                "selector": {"matchLabels": selector(name, component)},
                # A pod that never became ready must not keep a node from being drained.
                "unhealthyPodEvictionPolicy": "AlwaysAllow",
            },
        )
        for component in (*prefiller, labels.DECODER, labels.PROXY, *_shared(deployment))
    )


def _shared(deployment: PDDeployment) -> tuple[str, ...]:
    spec = deployment.spec
    if spec.connector is Connector.LMCACHE_MP:
        return (labels.LMCACHE_SERVER,)
    if not spec.uses_store:
        return ()
    if spec.mooncake.store.mode is StoreMode.STANDALONE:
        return labels.MOONCAKE, labels.STORE_POOL
    return (labels.MOONCAKE,)
