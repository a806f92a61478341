"""The engines' side of the Mooncake store: their configuration, and the wait for the master."""

from pd_operator.build import names
from pd_operator.build.hashing import short_hash
from pd_operator.build.parts.part import Part, Tier
from pd_operator.build.proxy import CONFIG_HASH
from pd_operator.build.security import restricted_container
from pd_operator.build.store import CONFIG_FOLDER, CONFIG_KEY, store_config, wait_for_master


def part(tier: Tier) -> Part:
    """Nothing without the store."""
    if not tier.deployment.spec.mooncake.store.enabled:
        return Part()
    wait = wait_for_master(tier.deployment, tier.cluster_domain)
    return Part(
        env={"MOONCAKE_CONFIG_PATH": f"{CONFIG_FOLDER}/{CONFIG_KEY}"},
        volumes=({"name": "mooncake", "configMap": {"name": names.engine(tier.name)}},),
        mounts=({"name": "mooncake", "mountPath": CONFIG_FOLDER, "readOnly": True},),
        init_containers=({**wait, "securityContext": restricted_container()},),
        annotations={CONFIG_HASH: short_hash(store_config(tier.deployment, tier.cluster_domain))},
        pairing={"store": True},
    )
