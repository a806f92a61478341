"""The proxy's Deployment."""

import math
from typing import Final

from pd_operator.api.deployment import PDDeployment
from pd_operator.api.proxy import ProxySpec
from pd_operator.api.values import duration_seconds
from pd_operator.build import names
from pd_operator.build.hashing import short_hash
from pd_operator.build.manifest import Manifest, child, child_labels, selector
from pd_operator.build.probes import liveness, readiness
from pd_operator.build.proxy_config import CONFIG_KEY, KEYS_FOLDER, TLS_FOLDER, proxy_config
from pd_operator.build.pull_secrets import pull_secrets
from pd_operator.build.security import restricted_container, restricted_pod
from pd_operator.build.volumes import tmp_mount, tmp_volume
from pd_shared import labels, ports

CONFIG_HASH: Final = f"{labels.GROUP}/config-hash"
"""Annotation on pods that read a file once, at start: a new file means new pods."""

DEFAULT_REPLICAS: Final = 2
_CONFIG_FOLDER: Final = "/etc/pd-proxy"
_PRE_STOP_SECONDS: Final = 5
_SPARE_SECONDS: Final = 25
"""Of the grace period, beside preStop and the time in which the proxy lets requests end."""


def proxy_deployment(deployment: PDDeployment, image: str) -> Manifest:
    """The proxy's Deployment with `image`; no pod goes before its successor is ready."""
    name = deployment.metadata.name
    replicas = deployment.spec.proxy.replicas
    return child(
        deployment,
        "apps/v1",
        "Deployment",
        names.proxy(name),
        labels.PROXY,
        spec={
            "replicas": DEFAULT_REPLICAS if replicas is None else replicas,
            "revisionHistoryLimit": 2,
            "selector": {"matchLabels": selector(name, labels.PROXY)},
            "strategy": {
                "type": "RollingUpdate",
                "rollingUpdate": {"maxSurge": 1, "maxUnavailable": 0},
            },
            "template": {
                "metadata": {
                    "labels": child_labels(name, labels.PROXY),
                    "annotations": {CONFIG_HASH: short_hash(proxy_config(deployment))},
                },
                "spec": _pod(deployment, image),
            },
        },
    )


def _pod(deployment: PDDeployment, image: str) -> Manifest:
    name = deployment.metadata.name
    drain = math.ceil(duration_seconds(deployment.spec.proxy.timeouts.drain))
    secrets = _secrets(deployment.spec.proxy)
    return {
        "serviceAccountName": names.proxy(name),
        **pull_secrets(deployment),
        "automountServiceAccountToken": True,
        "enableServiceLinks": False,
        "securityContext": restricted_pod(),
        "terminationGracePeriodSeconds": _PRE_STOP_SECONDS + drain + _SPARE_SECONDS,
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": selector(name, labels.PROXY)},
            }
        ],
        "containers": [
            {
                "name": "proxy",
                "image": image,
                "command": [
                    "python", "-m", "pd_proxy", "--config", f"{_CONFIG_FOLDER}/{CONFIG_KEY}",
                ],
                "ports": [
                    {"name": "http", "containerPort": ports.HTTP, "protocol": "TCP"},
                    {"name": "admin", "containerPort": ports.PROXY_ADMIN, "protocol": "TCP"},
                ],
                "readinessProbe": readiness({"httpGet": {"path": "/readyz", "port": "admin"}}),
                "livenessProbe": liveness({"httpGet": {"path": "/healthz", "port": "admin"}}),
                "lifecycle": {"preStop": {"sleep": {"seconds": _PRE_STOP_SECONDS}}},
                "resources": {
                    "requests": {"cpu": "100m", "memory": "128Mi"},
                    "limits": {"memory": "1Gi"},
                },
                "securityContext": restricted_container(),
                "volumeMounts": [
                    {"name": "config", "mountPath": _CONFIG_FOLDER, "readOnly": True},
                    *(
                        {"name": volume, "mountPath": path, "readOnly": True}
                        for volume, path, _ in secrets
                    ),
                    tmp_mount(),
                ],
            }
        ],
        "volumes": [
            {"name": "config", "configMap": {"name": names.proxy(name)}},
            *(
                {"name": volume, "secret": {"secretName": secret}}
                for volume, _, secret in secrets
            ),
            tmp_volume(),
        ],
    }  # fmt: skip


def _secrets(proxy: ProxySpec) -> list[tuple[str, str, str]]:
    """Mounted Secrets: volume, folder, name. Mounted whole, so that the kubelet renews them."""
    result = []
    if proxy.api_keys:
        result.append(("api-keys", KEYS_FOLDER, proxy.api_keys.secret_name))
    if proxy.tls:
        result.append(("tls", TLS_FOLDER, proxy.tls.secret_name))
    return result
