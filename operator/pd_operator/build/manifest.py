"""What every child has in common: its metadata, labels and owner."""

from typing import Any

from pd_operator.api.deployment import PDDeployment
from pd_operator.build.owner import owner_reference
from pd_shared import labels

Manifest = dict[str, Any]
"""A Kubernetes object as it is sent to the API server."""


def child_labels(name: str, component: str) -> dict[str, str]:
    """Labels of every child, and of every pod, of the deployment `name`."""
    return {
        labels.K8S_MANAGED_BY: labels.MANAGED_BY,
        labels.K8S_INSTANCE: name,
        labels.K8S_COMPONENT: component,
        **selector(name, component),
    }


def selector(name: str, component: str) -> dict[str, str]:
    """Labels that select one component's pods, in all revisions."""
    return {labels.DEPLOYMENT: name, labels.COMPONENT: component}


def child(
    deployment: PDDeployment, api_version: str, kind: str, name: str, component: str, **fields: Any
) -> Manifest:
    """A namespaced child with owner and labels; `fields` are the object's top-level fields."""
    return {
        "apiVersion": api_version,
        "kind": kind,
        "metadata": {
            "name": name,
            "namespace": deployment.metadata.namespace,
            "labels": child_labels(deployment.metadata.name, component),
            "ownerReferences": [owner_reference(deployment)],
        },
        **fields,
    }
