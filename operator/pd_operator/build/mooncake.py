"""The Mooncake master's Deployment, with its metadata service: only where the store is on."""

from typing import Final

from pd_operator.api.deployment import PDDeployment
from pd_operator.build import names
from pd_operator.build.manifest import Manifest, child, child_labels, selector
from pd_operator.build.security import restricted_container, restricted_pod
from pd_operator.build.volumes import tmp_mount, tmp_volume
from pd_shared import labels, ports

_PRE_STOP_SECONDS: Final = 10
"""While the old master sleeps it serves its connections, and its successor becomes ready."""

_GRACE_SECONDS: Final = 30


def mooncake_deployment(deployment: PDDeployment, image: str) -> Manifest:
    """One master; a second one would hand out memory of the same engines, hence Recreate."""
    name = deployment.metadata.name
    return child(
        deployment,
        "apps/v1",
        "Deployment",
        names.mooncake(name),
        labels.MOONCAKE,
        spec={
            "replicas": 1,
            "revisionHistoryLimit": 2,
            "selector": {"matchLabels": selector(name, labels.MOONCAKE)},
            "strategy": {"type": "Recreate"},
            "template": {
                "metadata": {"labels": child_labels(name, labels.MOONCAKE)},
                "spec": _pod(name, image),
            },
        },
    )


def _pod(name: str, image: str) -> Manifest:
    return {
        "serviceAccountName": names.engine(name),
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "securityContext": restricted_pod(),
        "terminationGracePeriodSeconds": _GRACE_SECONDS,
        "containers": [
            {
                "name": "master",
                "image": image,
                "command": ["mooncake_master"],
                "args": [
                    f"--rpc_port={ports.MOONCAKE_RPC}",
                    f"--metrics_port={ports.MOONCAKE_ADMIN}",
                    "--enable_http_metadata_server=true",
                    f"--http_metadata_server_port={ports.MOONCAKE_METADATA}",
                    "--enable_metadata_cleanup_on_timeout=true",
                    "--logtostderr",
                ],
                "ports": [
                    {"name": "rpc", "containerPort": ports.MOONCAKE_RPC, "protocol": "TCP"},
                    {
                        "name": "metadata",
                        "containerPort": ports.MOONCAKE_METADATA,
                        "protocol": "TCP",
                    },
                    {"name": "admin", "containerPort": ports.MOONCAKE_ADMIN, "protocol": "TCP"},
                ],
                # /health answers 200 whatever the state, so readiness asks the RPC port.
                "readinessProbe": {
                    "tcpSocket": {"port": "rpc"},
                    "periodSeconds": 2,
                    "timeoutSeconds": 3,
                    "failureThreshold": 3,
                },
                "livenessProbe": {
                    "httpGet": {"path": "/health", "port": "admin"},
                    "initialDelaySeconds": 10,
                    "periodSeconds": 10,
                    "timeoutSeconds": 5,
                    "failureThreshold": 6,
                },
                "lifecycle": {"preStop": {"sleep": {"seconds": _PRE_STOP_SECONDS}}},
                "resources": {
                    "requests": {"cpu": "100m", "memory": "256Mi"},
                    "limits": {"memory": "4Gi"},
                },
                "securityContext": restricted_container(),
                "volumeMounts": [
                    tmp_mount(),
                ],
            }
        ],
        "volumes": [tmp_volume()],
    }
