"""What the proxy may do at the API server: watch the pods of its namespace."""

from typing import Final

from pd_operator.api.deployment import PDDeployment
from pd_operator.build import names
from pd_operator.build.manifest import Manifest, child
from pd_shared import labels

_API_GROUP: Final = "rbac.authorization.k8s.io"


def roles(deployment: PDDeployment) -> tuple[Manifest, ...]:
    """The proxy's Role and its binding."""
    name = names.proxy(deployment.metadata.name)
    role = child(
        deployment,
        f"{_API_GROUP}/v1",
        "Role",
        name,
        labels.PROXY,
        rules=[{"apiGroups": [""], "resources": ["pods"], "verbs": ["get", "list", "watch"]}],
    )
    binding = child(
        deployment,
        f"{_API_GROUP}/v1",
        "RoleBinding",
        name,
        labels.PROXY,
        roleRef={"apiGroup": _API_GROUP, "kind": "Role", "name": name},
        subjects=[
            {
                "kind": "ServiceAccount",
                "name": name,
                "namespace": deployment.metadata.namespace,
            }
        ],
    )
    return role, binding
