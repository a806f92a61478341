"""The engines' side of the Mooncake store: their configuration, and the wait for the master."""

from dataclasses import replace

from pd_operator.build import names
from pd_operator.build.connectors import BUILDERS
from pd_operator.build.hashing import short_hash
from pd_operator.build.parts.part import Part, Tier
from pd_operator.build.proxy import CONFIG_HASH
from pd_operator.build.security import restricted_container
from pd_operator.build.store import (
    CONFIG_FOLDER,
    CONFIG_KEY,
    client_env,
    store_config,
    wait_for_master,
)


def part(tier: Tier) -> Part:
    """Nothing without the store."""
    deployment = tier.deployment
    if not deployment.spec.uses_store:
        return Part()
    wait = wait_for_master(deployment, tier.cluster_domain, tier.image)
    common = Part(
        env=client_env(deployment),
        init_containers=({**wait, "securityContext": restricted_container()},),
        pairing={"store": True},
    )
    if not BUILDERS[deployment.spec.connector].store_file:
        return common
    return replace(
        common,
        env={**common.env, "MOONCAKE_CONFIG_PATH": f"{CONFIG_FOLDER}/{CONFIG_KEY}"},
        volumes=({"name": "mooncake", "configMap": {"name": names.engine(tier.name)}},),
        mounts=({"name": "mooncake", "mountPath": CONFIG_FOLDER, "readOnly": True},),
        annotations={CONFIG_HASH: short_hash(store_config(deployment, tier.cluster_domain))},
    )
