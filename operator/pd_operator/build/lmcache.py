"""LMCache's configuration: the file of each tier's engines, with Mooncake Store behind it."""

from decimal import Decimal
from typing import Any, Final

import yaml

from pd_operator.api.deployment import PDDeployment
from pd_operator.api.lmcache import LMCacheSpec, LMCacheTierSpec
from pd_operator.api.store import StoreMode
from pd_operator.api.values import quantity
from pd_operator.build import names
from pd_operator.build.devices import device_list
from pd_operator.build.manifest import Manifest, child
from pd_operator.build.store import P2P_HANDSHAKE, master_address, master_host
from pd_shared import labels

CONFIG_KEY: Final = "lmcache.yaml"
CONFIG_FOLDER: Final = "/etc/lmcache"
HASH: Final = f"{labels.GROUP}/lmcache-hash"
"""Annotation on engine pods: LMCache reads its file once, at start."""


def config_map_name(name: str, component: str) -> str:
    """The ConfigMap with a tier's file."""
    return f"{name}-{component}-lmcache"


def gib(size: str) -> int | float:
    """A quantity in GiB, as LMCache counts; whole where it is."""
    value = quantity(size) / Decimal(2**30)
    return int(value) if value == int(value) else round(float(value), 6)


def tier_spec(deployment: PDDeployment, component: str) -> LMCacheTierSpec:
    """`spec.lmcache.prefill` or `spec.lmcache.decode`."""
    lmcache = deployment.spec.lmcache or LMCacheSpec()
    found = lmcache.prefill if component == labels.PREFILLER else lmcache.decode
    return found or LMCacheTierSpec()


def extra_config(deployment: PDDeployment, cluster_domain: str) -> dict[str, Any]:
    """What LMCache hands to Mooncake's client (`mooncakestore_connector.py` of LMCache 0.5)."""
    spec = deployment.spec
    store, master = spec.mooncake.store, spec.mooncake.master
    # Each of several masters has a metadata service of its own, none of which knows all.
    metadata = (
        P2P_HANDSHAKE
        if master.ha
        else f"http://{master_host(deployment, cluster_domain)}:{master.metadata_port}/metadata"
    )
    alone = store.mode is StoreMode.STANDALONE
    return {
        "metadata_server": metadata,
        "master_server_address": master_address(deployment, cluster_domain),
        "protocol": spec.kv_transfer.protocol.value,
        "device_name": device_list(deployment),
        "global_segment_size": 0 if alone else int(quantity(store.segment_size)),
        "local_buffer_size": int(quantity(store.local_buffer_size)),
    }


def engine_config(deployment: PDDeployment, component: str, cluster_domain: str) -> str:
    """The file that LMCACHE_CONFIG_FILE names; each pod adds its own address to `extra_config`."""
    lmcache, tier = deployment.spec.lmcache or LMCacheSpec(), tier_spec(deployment, component)
    host = master_host(deployment, cluster_domain)
    return yaml.safe_dump(
        {
            "chunk_size": lmcache.chunk_size,
            "local_cpu": tier.local_cpu,
            "max_local_cpu_size": gib(tier.local_cpu_size),
            "remote_url": f"mooncakestore://{host}:{deployment.spec.mooncake.master.port}/",
            "remote_serde": "naive",
            "extra_config": extra_config(deployment, cluster_domain),
        },
        sort_keys=False,
    )


def lmcache_config_maps(deployment: PDDeployment, cluster_domain: str) -> tuple[Manifest, ...]:
    """One for each tier."""
    return tuple(
        child(
            deployment,
            "v1",
            "ConfigMap",
            config_map_name(deployment.metadata.name, component),
            component,
            data={CONFIG_KEY: engine_config(deployment, component, cluster_domain)},
        )
        for component in names.TIERS
    )
