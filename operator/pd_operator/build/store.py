"""How engines find and use the Mooncake store: the shared ConfigMap and the wait for the master."""

import json
from typing import Final

from pd_operator.api.deployment import PDDeployment
from pd_operator.api.values import quantity
from pd_operator.build import names
from pd_operator.build.devices import device_list
from pd_operator.build.manifest import Manifest, child
from pd_shared import labels, ports

CONFIG_KEY: Final = "mooncake.json"
CONFIG_FOLDER: Final = "/etc/mooncake"

WAIT_SCRIPT: Final = """\
import socket, sys, time
host, port = sys.argv[1], int(sys.argv[2])
print(f"waiting for the Mooncake master at {host}:{port}", flush=True)
while True:
    try:
        socket.create_connection((host, port), 5).close()
        break
    except OSError as error:
        print(f"no Mooncake master at {host}:{port} yet: {error}", flush=True)
        time.sleep(2)
print("the Mooncake master answers", flush=True)
"""
"""Python program: returns when a connection to argv[1]:argv[2] succeeds."""


def store_config(deployment: PDDeployment, cluster_domain: str) -> str:
    """The file that MOONCAKE_CONFIG_PATH names; sizes are bytes per engine rank."""
    store = deployment.spec.mooncake.store
    return json.dumps(
        {
            "mode": "embedded",
            "metadata_server": "P2PHANDSHAKE",
            "master_server_address": f"{master_host(deployment, cluster_domain)}"
            f":{ports.MOONCAKE_RPC}",
            "protocol": deployment.spec.kv_transfer.protocol.value,
            "device_name": device_list(deployment),
            "global_segment_size": int(quantity(store.segment_size)),
            "local_buffer_size": int(quantity(store.local_buffer_size)),
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


def wait_for_master(deployment: PDDeployment, cluster_domain: str) -> Manifest:
    """An init container that ends when the master answers: vLLM dies at start without one.

    It runs the engine's own image, so that no other image decides about engine pods.
    """
    return {
        "name": "wait-for-mooncake",
        "image": deployment.spec.engine.image,
        "command": [
            "python3", "-c", WAIT_SCRIPT, master_host(deployment, cluster_domain),
            str(ports.MOONCAKE_RPC),
        ],
        "resources": {
            "requests": {"cpu": "10m", "memory": "32Mi"},
            "limits": {"memory": "128Mi"},
        },
    }  # fmt: skip
