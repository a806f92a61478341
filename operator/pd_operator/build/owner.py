"""The owner reference of every child: deleting the PDDeployment removes its children."""

from typing import Any

from pd_operator.api.deployment import API_VERSION, KIND, PDDeployment


def owner_reference(deployment: PDDeployment) -> dict[str, Any]:
    """The one controller reference that a child carries.

    `blockOwnerDeletion` is false: setting it needs the right to update finalizers where the API
    server enforces owner references (OpenShift does), and children may well outlive the owner by
    a moment.
    """
    return {
        "apiVersion": API_VERSION,
        "kind": KIND,
        "name": deployment.metadata.name,
        "uid": deployment.metadata.uid,
        "controller": True,
        "blockOwnerDeletion": False,
    }
