"""From a PDDeployment to its children: pure builders, one file per kind of child."""

from dataclasses import dataclass

from pd_operator.api.deployment import PDDeployment
from pd_operator.api.kv_transfer import Connector
from pd_operator.api.store import StoreMode
from pd_operator.build import names
from pd_operator.build.colocated import effective
from pd_operator.build.disruption_budgets import disruption_budgets
from pd_operator.build.launcher import launcher_config_map
from pd_operator.build.lmcache import lmcache_config_maps
from pd_operator.build.lmcache_server import lmcache_server
from pd_operator.build.manifest import Manifest
from pd_operator.build.model_job import model_job
from pd_operator.build.mooncake import mooncake_deployment
from pd_operator.build.network_policies import network_policies
from pd_operator.build.proxy import proxy_deployment
from pd_operator.build.proxy_config import proxy_config_map
from pd_operator.build.roles import roles
from pd_operator.build.service_accounts import service_accounts
from pd_operator.build.services import services
from pd_operator.build.stateful_set import TierChild, tier_child
from pd_operator.build.store import store_config_map
from pd_operator.build.store_pool import store_pool
from pd_shared import labels, ports

__all__ = ["Defaults", "Desired", "Manifest", "TierChild", "desired", "url"]


@dataclass(frozen=True)
class Defaults:
    """What the operator was installed with: image references and the cluster's DNS domain."""

    proxy_image: str
    mooncake_image: str
    cluster_domain: str = "cluster.local"


@dataclass(frozen=True)
class Desired:
    """All children that should exist; `objects` are those beside the tiers, in apply order."""

    tiers: tuple[TierChild, ...]
    """The prefillers, unless the mode is Colocated, and the decoders."""
    pairing: str
    objects: tuple[Manifest, ...]

    def tier(self, component: str) -> TierChild | None:
        """The tier `component`, prefiller or decoder; None where the mode has none."""
        return next((tier for tier in self.tiers if tier.component == component), None)

    @property
    def prefiller(self) -> TierChild:
        """The prefillers; LookupError in mode Colocated."""
        return self._the(labels.PREFILLER)

    @property
    def decoder(self) -> TierChild:
        """The decoders, which every mode has."""
        return self._the(labels.DECODER)

    def _the(self, component: str) -> TierChild:
        found = self.tier(component)
        if found is None:
            raise LookupError(f"no {component} in this mode")
        return found


def desired(deployment: PDDeployment, defaults: Defaults) -> Desired:
    """The children of a deployment; equal inputs give equal results."""
    deployment = effective(deployment)
    domain = defaults.cluster_domain
    components = (labels.DECODER,) if deployment.spec.colocated else names.TIERS
    tiers = tuple(tier_child(deployment, component, domain) for component in components)
    return Desired(
        tiers=tiers,
        pairing=tiers[-1].pairing,
        objects=(
            *service_accounts(deployment),
            *roles(deployment),
            proxy_config_map(deployment),
            launcher_config_map(deployment),
            *services(deployment),
            *disruption_budgets(deployment),
            *network_policies(deployment),
            *_store(deployment, defaults),
            *model_job(deployment),
            proxy_deployment(deployment, deployment.spec.proxy.image or defaults.proxy_image),
        ),
    )


def url(deployment: PDDeployment, defaults: Defaults) -> str:
    """The OpenAI-compatible base URL of the deployment within the cluster."""
    metadata = deployment.metadata
    host = names.service_host(
        names.proxy(metadata.name), metadata.namespace, defaults.cluster_domain
    )
    scheme = "https" if deployment.spec.proxy.tls else "http"
    return f"{scheme}://{host}:{ports.HTTP}/v1"


def _store(deployment: PDDeployment, defaults: Defaults) -> tuple[Manifest, ...]:
    spec, domain = deployment.spec, defaults.cluster_domain
    if spec.connector is Connector.LMCACHE_MP:
        return (lmcache_server(deployment),)
    if not spec.uses_store:
        return ()
    image = spec.mooncake.image or defaults.mooncake_image
    configuration = (
        lmcache_config_maps(deployment, domain)
        if spec.connector is Connector.LMCACHE
        else (store_config_map(deployment, domain),)
    )
    pool = spec.mooncake.store.mode is StoreMode.STANDALONE
    return (
        *configuration,
        mooncake_deployment(deployment, image),
        *((store_pool(deployment, image, domain),) if pool else ()),
    )
