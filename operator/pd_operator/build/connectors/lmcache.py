"""LMCacheConnectorV1: LMCache in each engine, with Mooncake Store behind it."""

from typing import Final

from pd_operator.api.lmcache import LMCacheSpec
from pd_operator.build.connectors.builder import Builder, role
from pd_operator.build.hashing import canonical_json, short_hash
from pd_operator.build.lmcache import (
    CONFIG_FOLDER,
    CONFIG_KEY,
    HASH,
    config_map_name,
    engine_config,
    extra_config,
)
from pd_operator.build.manifest import Manifest
from pd_operator.build.parts.part import Part, Tier


def config(tier: Tier) -> Manifest:
    """All else is in the file of LMCACHE_CONFIG_FILE."""
    return {"kv_connector": "LMCacheConnectorV1", "kv_role": role(tier)}


def part(tier: Tier) -> Part:
    """LMCache's file of this tier, and what differs from pod to pod."""
    deployment, component = tier.deployment, tier.component
    # The variable replaces the file's extra_config as a whole; the address is the pod's own.
    extra = {
        **extra_config(deployment, tier.cluster_domain),
        "local_hostname": "$(VLLM_HOST_IP)",
    }
    text = engine_config(deployment, component, tier.cluster_domain)
    return Part(
        env={
            "LMCACHE_CONFIG_FILE": f"{CONFIG_FOLDER}/{CONFIG_KEY}",
            "LMCACHE_EXTRA_CONFIG": canonical_json(extra),
            "LMCACHE_TRACK_USAGE": "false",
        },
        volumes=(
            {"name": "lmcache", "configMap": {"name": config_map_name(tier.name, component)}},
        ),
        mounts=({"name": "lmcache", "mountPath": CONFIG_FOLDER, "readOnly": True},),
        annotations={HASH: short_hash(text)},
        pairing={"chunk": (deployment.spec.lmcache or LMCacheSpec()).chunk_size},
    )


BUILDER: Final = Builder(config, part)
