"""Names of children, derived from the PDDeployment's name alone."""

from typing import Final

from pd_shared import labels

TIERS: Final = (labels.PREFILLER, labels.DECODER)


def tier(name: str, component: str) -> str:
    """A tier's headless Service and PodDisruptionBudget; `component` is prefiller or decoder."""
    return f"{name}-{component}"


def stateful_set(name: str, component: str, revision: str) -> str:
    """A tier's StatefulSet of one revision."""
    return f"{name}-{component}-{revision}"


def proxy(name: str) -> str:
    """The proxy's Deployment, Service, ConfigMap, ServiceAccount, Role, RoleBinding and budget."""
    return f"{name}-proxy"


def mooncake(name: str) -> str:
    """The Mooncake master's Deployment and Service."""
    return f"{name}-mooncake"


def store_pool(name: str) -> str:
    """The Deployment of pods that give the Mooncake store their memory, and its budget."""
    return f"{name}-store"


def lmcache(name: str) -> str:
    """The LMCache server's Deployment, Service and budget."""
    return f"{name}-lmcache"


def engine(name: str) -> str:
    """What both tiers share: ServiceAccount, ConfigMap and NetworkPolicy."""
    return f"{name}-engine"


def model(name: str) -> str:
    """The ServiceAccount of the Job that downloads the model."""
    return f"{name}-model"


def model_job(name: str, digest: str) -> str:
    """The Job that downloads the model, of that content."""
    return f"{name}-model-{digest}"


def launcher(name: str, digest: str) -> str:
    """The ConfigMap with the launcher of that content."""
    return f"{name}-engine-launcher-{digest}"


def service_host(service: str, namespace: str, cluster_domain: str) -> str:
    """The DNS name of a Service, absolute but for the last dot."""
    return f"{service}.{namespace}.svc.{cluster_domain}"
