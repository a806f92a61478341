"""Label and annotation keys, and the values that they take."""

from collections.abc import Mapping
from typing import Final

GROUP: Final = "pd-operator.io"

DEPLOYMENT: Final = f"{GROUP}/deployment"
"""Name of the PDDeployment that a child or pod belongs to."""

COMPONENT: Final = f"{GROUP}/component"
"""What a child or pod is: one of the component values below."""

REVISION: Final = f"{GROUP}/revision"
"""Hash of the tier's pod template, 8 letters."""

PAIRING: Final = f"{GROUP}/pairing"
"""Hash of all that prefiller and decoder must agree on; only equal ones are paired."""

DEPLOYMENT_UID: Final = f"{GROUP}/deployment-uid"
"""Annotation on engine pods: UID of the PDDeployment, so that a namesake's pods never count."""

INPUTS: Final = f"{GROUP}/inputs"
"""Annotation on StatefulSets: hash of what the tier was made from, 8 letters."""

RESTARTED_AT: Final = f"{GROUP}/restartedAt"
"""Annotation on a PDDeployment, any value: another value rolls both tiers. The operator reads no
Secret, so this is how a changed one gets to the engines."""

DRAINING: Final = f"{GROUP}/draining"
"""Annotation on a pod, value "true": the proxy chooses it no more."""

GROUP_SIZE: Final = f"{GROUP}/group-size"
"""Annotation on engine pods: pods of a replica, if more than one.

The pods of a StatefulSet from `r * size` to `r * size + size - 1` are replica `r`; the first of
them leads, and it alone serves.
"""

GANG_SIZE: Final = "scheduling.volcano.sh/group-min-member"
"""Volcano's annotation on a StatefulSet: how many of its pods start at once or not at all."""

K8S_NAME: Final = "app.kubernetes.io/name"
K8S_INSTANCE: Final = "app.kubernetes.io/instance"
K8S_COMPONENT: Final = "app.kubernetes.io/component"
K8S_MANAGED_BY: Final = "app.kubernetes.io/managed-by"
MANAGED_BY: Final = "pd-operator"

PREFILLER: Final = "prefiller"
DECODER: Final = "decoder"
PROXY: Final = "proxy"
MOONCAKE: Final = "mooncake"
STORE_POOL: Final = "store"
"""Pods that give Mooncake Store their memory."""
LMCACHE_SERVER: Final = "lmcache"
MODEL: Final = "model"
"""The Job that downloads the model, and its pods."""
ENGINE: Final = "engine"
"""Component of children that both tiers share (ServiceAccount, engine ConfigMap)."""

CONNECTOR: Final = f"{GROUP}/connector"
"""Annotation on engine pods: how KV gets from prefiller to decoder, one of CONNECTORS.

Pods without it count as MOONCAKE.
"""

MOONCAKE_CONNECTOR: Final = "Mooncake"
NIXL: Final = "Nixl"
MOONCAKE_STORE: Final = "MooncakeStore"
LMCACHE: Final = "LMCache"
LMCACHE_MP: Final = "LMCacheMP"
MULTI: Final = "Multi"
COLOCATED: Final = "Colocated"
"""No transfer at all: each decoder is a whole engine."""

CONNECTORS: Final = (
    MOONCAKE_CONNECTOR, NIXL, MOONCAKE_STORE, LMCACHE, LMCACHE_MP, MULTI, COLOCATED,
)  # fmt: skip
"""Values of CONNECTOR."""


def ordinal(pod: str) -> int | None:
    """The number of a StatefulSet's pod; None for a name of another kind."""
    digits = pod.rpartition("-")[2]
    return int(digits) if digits.isdecimal() and digits.isascii() else None


def group_size(annotations: Mapping[str, str]) -> int:
    """Pods of a replica, from the annotations of one of its pods."""
    text = annotations.get(GROUP_SIZE, "1")
    return max(1, int(text)) if text.isdecimal() and text.isascii() else 1
