"""The proxy's configuration file, as `docs/architecture.md` describes it."""

import json
from typing import Final

from pd_operator.api.deployment import PDDeployment
from pd_operator.build import names
from pd_operator.build.manifest import Manifest, child
from pd_shared import labels, ports

CONFIG_KEY: Final = "config.json"


def proxy_config(deployment: PDDeployment) -> str:
    """The file's text: times in seconds, sizes in bytes."""
    model = deployment.spec.model
    return json.dumps(
        {
            "deployment": deployment.metadata.name,
            "namespace": deployment.metadata.namespace,
            "deploymentUid": deployment.metadata.uid,
            "servedNames": [model.served_name or model.id],
            "connector": deployment.spec.kv_transfer.connector.value,
            "listen": {"host": "", "port": ports.HTTP},
            "admin": {"host": "", "port": ports.PROXY_ADMIN},
            "timeouts": {
                "connect": 2.0,
                "bootstrap": 5.0,
                "prefill": 120.0,
                "firstToken": 150.0,
                "betweenTokens": 60.0,
            },
            "limits": {
                "bodyBytes": 32 * 1024 * 1024,
                "headerBytes": 64 * 1024,
                "connections": 4096,
                "inFlight": 1024,
            },
        },
        indent=2,
    )


def proxy_config_map(deployment: PDDeployment) -> Manifest:
    """The ConfigMap with the proxy's configuration file."""
    return child(
        deployment,
        "v1",
        "ConfigMap",
        names.proxy(deployment.metadata.name),
        labels.PROXY,
        data={CONFIG_KEY: proxy_config(deployment) + "\n"},
    )
