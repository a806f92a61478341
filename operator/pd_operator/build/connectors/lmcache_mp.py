"""LMCacheMPConnector: one LMCache server for all engines of the deployment."""

from typing import Final

from pd_operator.build import names
from pd_operator.build.connectors.builder import Builder, role
from pd_operator.build.manifest import Manifest
from pd_operator.build.parts.part import Part, Tier
from pd_operator.build.security import restricted_container
from pd_operator.build.wait import wait_for
from pd_shared import ports


def config(tier: Tier) -> Manifest:
    """The engine copies KV itself: shared memory and CUDA IPC end at the pod."""
    return {
        "kv_connector": "LMCacheMPConnector",
        "kv_role": role(tier),
        "kv_connector_extra_config": {
            "lmcache.mp.host": f"tcp://{_host(tier)}",
            "lmcache.mp.port": ports.LMCACHE,
            "lmcache.mp.mp_transfer_mode": "engine_driven",
        },
    }


def part(tier: Tier) -> Part:
    """The wait for the server: an engine that starts without it caches nothing."""
    wait = wait_for("lmcache", tier.image, _host(tier), ports.LMCACHE)
    return Part(
        env={"LMCACHE_TRACK_USAGE": "false"},
        init_containers=({**wait, "securityContext": restricted_container()},),
    )


def _host(tier: Tier) -> str:
    namespace = tier.deployment.metadata.namespace
    return names.service_host(names.lmcache(tier.name), namespace, tier.cluster_domain)


BUILDER: Final = Builder(config, part)
