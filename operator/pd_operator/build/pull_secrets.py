"""Secrets with which the kubelet pulls images of private registries."""

from typing import Any

from pd_operator.api.deployment import PDDeployment


def pull_secrets(deployment: PDDeployment) -> dict[str, Any]:
    """The pod fields that name them; empty without any."""
    names = deployment.spec.engine.image_pull_secrets
    return {"imagePullSecrets": [{"name": name} for name in names]} if names else {}
