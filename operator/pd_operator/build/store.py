"""How engines find and use the Mooncake store: the shared ConfigMap and the wait for the master."""

import json
from typing import Final

from pd_operator.api.deployment import PDDeployment
from pd_operator.api.store import StoreMode
from pd_operator.api.values import quantity
from pd_operator.build import names
from pd_operator.build.devices import device_list
from pd_operator.build.manifest import Manifest, child
from pd_operator.build.wait import wait_for
from pd_shared import labels

CONFIG_KEY: Final = "mooncake.json"
CONFIG_FOLDER: Final = "/etc/mooncake"
P2P_HANDSHAKE: Final = "P2PHANDSHAKE"
"""Clients tell one another where their memory is, without a metadata service."""


def store_config(deployment: PDDeployment, cluster_domain: str) -> str:
    """The file that MOONCAKE_CONFIG_PATH names; sizes are bytes per engine rank."""
    store = deployment.spec.mooncake.store
    alone = store.mode is StoreMode.STANDALONE
    return json.dumps(
        {
            "mode": "standalone-store" if alone else "embedded",
            "metadata_server": P2P_HANDSHAKE,
            "master_server_address": master_address(deployment, cluster_domain),
            "protocol": deployment.spec.kv_transfer.protocol.value,
            "device_name": device_list(deployment),
            "global_segment_size": 0 if alone else int(quantity(store.segment_size)),
            "local_buffer_size": int(quantity(store.local_buffer_size)),
            **({"enable_offload": True} if store.pool and store.pool.offload else {}),
        },
        indent=2,
    )


def store_config_map(deployment: PDDeployment, cluster_domain: str) -> Manifest:
    """The ConfigMap with the engines' store configuration."""
    return child(
        deployment,
        "v1",
        "ConfigMap",
        names.engine(deployment.metadata.name),
        labels.ENGINE,
        data={CONFIG_KEY: store_config(deployment, cluster_domain) + "\n"},
    )


def master_host(deployment: PDDeployment, cluster_domain: str) -> str:
    """The DNS name at which engines reach the Mooncake master."""
    metadata = deployment.metadata
    return names.service_host(names.mooncake(metadata.name), metadata.namespace, cluster_domain)


def master_address(deployment: PDDeployment, cluster_domain: str) -> str:
    """Where clients find the master; with several of them etcd knows which one leads."""
    master = deployment.spec.mooncake.master
    if master.ha:
        return f"etcd://{';'.join(master.ha.etcd.endpoints)}"
    return f"{master_host(deployment, cluster_domain)}:{master.port}"


def cluster_id(deployment: PDDeployment) -> str:
    """What keeps several masters of one etcd apart."""
    return f"{deployment.metadata.namespace}-{deployment.metadata.name}"


def client_env(deployment: PDDeployment) -> dict[str, str]:
    """What every client of the store needs in its environment."""
    if deployment.spec.mooncake.master.ha:
        return {"MC_STORE_CLUSTER_ID": cluster_id(deployment)}
    return {}


def wait_for_master(deployment: PDDeployment, cluster_domain: str, image: str) -> Manifest:
    """An init container that ends when the master answers: vLLM dies at start without one.

    Of several masters only the one that leads takes connections.
    """
    host = master_host(deployment, cluster_domain)
    return wait_for("mooncake", image, host, deployment.spec.mooncake.master.port)
