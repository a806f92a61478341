"""The kinds of object that the operator reads and writes, and their REST paths."""

from dataclasses import dataclass
from typing import Final

from pd_operator.api import deployment


@dataclass(frozen=True)
class Kind:
    """A namespaced kind of the Kubernetes API."""

    api_version: str
    name: str
    plural: str

    @property
    def root(self) -> str:
        """Path of its group and version, such as `/apis/apps/v1`."""
        prefix = "/apis" if "/" in self.api_version else "/api"
        return f"{prefix}/{self.api_version}"

    @property
    def group(self) -> str:
        """Its API group; empty for the core group."""
        return self.api_version.rpartition("/")[0]

    @property
    def version(self) -> str:
        """Its API version, without the group."""
        return self.api_version.rpartition("/")[2]


PD_DEPLOYMENT: Final = Kind(deployment.API_VERSION, deployment.KIND, deployment.PLURAL)
SERVICE_ACCOUNT: Final = Kind("v1", "ServiceAccount", "serviceaccounts")
CONFIG_MAP: Final = Kind("v1", "ConfigMap", "configmaps")
ROLE: Final = Kind("rbac.authorization.k8s.io/v1", "Role", "roles")
ROLE_BINDING: Final = Kind("rbac.authorization.k8s.io/v1", "RoleBinding", "rolebindings")
SERVICE: Final = Kind("v1", "Service", "services")
DISRUPTION_BUDGET: Final = Kind("policy/v1", "PodDisruptionBudget", "poddisruptionbudgets")
NETWORK_POLICY: Final = Kind("networking.k8s.io/v1", "NetworkPolicy", "networkpolicies")
DEPLOYMENT: Final = Kind("apps/v1", "Deployment", "deployments")
JOB: Final = Kind("batch/v1", "Job", "jobs")
STATEFUL_SET: Final = Kind("apps/v1", "StatefulSet", "statefulsets")
POD: Final = Kind("v1", "Pod", "pods")
EVENT: Final = Kind("v1", "Event", "events")
LEASE: Final = Kind("coordination.k8s.io/v1", "Lease", "leases")

CHILDREN: Final = (
    SERVICE_ACCOUNT,
    CONFIG_MAP,
    ROLE,
    ROLE_BINDING,
    SERVICE,
    DISRUPTION_BUDGET,
    NETWORK_POLICY,
    DEPLOYMENT,
    JOB,
    STATEFUL_SET,
)
"""Every kind of child; only these are ever applied or pruned."""

_BY_NAME: Final = {kind.name: kind for kind in (*CHILDREN, PD_DEPLOYMENT, POD, EVENT, LEASE)}


def kind_of(manifest: dict[str, object]) -> Kind:
    """The kind of a manifest; ValueError where the operator does not handle it."""
    kind = _BY_NAME.get(str(manifest.get("kind")))
    if kind is None or kind.api_version != manifest.get("apiVersion"):
        raise ValueError(f"unknown kind {manifest.get('apiVersion')} {manifest.get('kind')}")
    return kind
