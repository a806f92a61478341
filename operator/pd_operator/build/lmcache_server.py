"""The LMCache server of connector LMCacheMP: one Deployment, reached over TCP."""

from typing import Final

from pd_operator.api.deployment import PDDeployment
from pd_operator.api.lmcache import LMCacheServerSpec, LMCacheSpec
from pd_operator.api.values import quantity
from pd_operator.build import names
from pd_operator.build.lmcache import gib
from pd_operator.build.manifest import Manifest, child, child_labels, selector
from pd_operator.build.pull_secrets import pull_secrets
from pd_operator.build.quantities import of_bytes
from pd_operator.build.security import restricted_container, restricted_pod
from pd_operator.build.volumes import TMP, tmp_mount, tmp_volume
from pd_shared import labels, ports

_BESIDE: Final = 2 * 2**30
"""Memory of the process beside the KV."""

_GRACE_SECONDS: Final = 30


def lmcache_server(deployment: PDDeployment) -> Manifest:
    """One server: a second one would not know what the first one holds, hence Recreate."""
    name = deployment.metadata.name
    return child(
        deployment,
        "apps/v1",
        "Deployment",
        names.lmcache(name),
        labels.LMCACHE_SERVER,
        spec={
            "replicas": 1,
            "revisionHistoryLimit": 2,
            "selector": {"matchLabels": selector(name, labels.LMCACHE_SERVER)},
            "strategy": {"type": "Recreate"},
            "template": {
                "metadata": {"labels": child_labels(name, labels.LMCACHE_SERVER)},
                "spec": _pod(deployment),
            },
        },
    )


def _pod(deployment: PDDeployment) -> Manifest:
    lmcache = deployment.spec.lmcache or LMCacheSpec()
    server = lmcache.server or LMCacheServerSpec()
    size = gib(server.memory)
    memory = of_bytes(int(quantity(server.memory)) + _BESIDE)
    return {
        "serviceAccountName": names.engine(deployment.metadata.name),
        **pull_secrets(deployment),
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": restricted_pod(),
        "terminationGracePeriodSeconds": _GRACE_SECONDS,
        "containers": [
            {
                "name": "lmcache",
                "image": server.image or deployment.spec.engine.image,
                # lmcache.v1.multiprocess.server has no HTTP, so nothing to probe.
                "command": ["python3", "-m", "lmcache.v1.multiprocess.http_server"],
                "args": [
                    "--host=0.0.0.0",
                    f"--port={ports.LMCACHE}",
                    "--http-host=0.0.0.0",
                    f"--http-port={ports.LMCACHE_HTTP}",
                    f"--chunk-size={lmcache.chunk_size}",
                    f"--l1-size-gb={size}",
                    "--eviction-policy=LRU",
                    # Engines are in other pods, with which no memory can be shared.
                    "--supported-transfer-mode=engine_driven",
                ],
                "env": [
                    {"name": "HOME", "value": TMP},
                    {"name": "USER", "value": "engine"},
                    {"name": "LMCACHE_TRACK_USAGE", "value": "false"},
                    # The hashes of tokens must be those of the engines.
                    {"name": "PYTHONHASHSEED", "value": "0"},
                ],
                "ports": [
                    {"name": "lmcache", "containerPort": ports.LMCACHE, "protocol": "TCP"},
                    {"name": "admin", "containerPort": ports.LMCACHE_HTTP, "protocol": "TCP"},
                ],
                "startupProbe": _probe(2, 150),
                "readinessProbe": _probe(5, 3),
                "livenessProbe": _probe(10, 6),
                "resources": {
                    "requests": {"cpu": "100m", "memory": memory},
                    "limits": {"memory": memory},
                },
                "securityContext": restricted_container(),
                "volumeMounts": [tmp_mount()],
            }
        ],
        "volumes": [tmp_volume()],
    }


def _probe(period_seconds: int, failures: int) -> Manifest:
    return {
        "httpGet": {"path": "/healthcheck", "port": "admin"},
        "periodSeconds": period_seconds,
        "timeoutSeconds": 5,
        "failureThreshold": failures,
    }
