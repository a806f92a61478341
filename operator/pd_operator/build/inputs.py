"""What a tier is made from: its hash tells a new release that nothing was asked to change."""

from typing import Any, Final

from pd_operator.api.deployment import PDDeployment
from pd_operator.build.hashing import short_hash
from pd_shared import labels

_OWN: Final = {labels.PREFILLER: "prefill", labels.DECODER: "decode"}
_OTHER: Final = {labels.PREFILLER: "decode", labels.DECODER: "prefill"}
_POLICY: Final = ("autoscaling", "network", "presets", "proxy")
"""Sections that no engine pod depends on; what presets say is in the others."""


def inputs(deployment: PDDeployment, component: str, cluster_domain: str) -> str:
    """8 letters over all that a tier's pods are made from.

    Only what the user set counts, so that a field that a later release adds changes nothing. It
    may hold more than what pods depend on: then a tier is rolled where it could have stayed.
    """
    spec = deployment.spec.model_dump(by_alias=True, exclude_unset=True, mode="json")
    for section in _POLICY:
        spec.pop(section, None)
    other: dict[str, Any] = spec.pop(_OTHER[component], {})
    if image := other.get("image"):
        spec["otherImage"] = image  # part of the pairing
    own: dict[str, Any] = spec.get(_OWN[component], {})
    own.pop("replicas", None)
    if not own:
        spec.pop(_OWN[component], None)
    return short_hash(
        {
            "spec": spec,
            "uid": deployment.metadata.uid,
            "clusterDomain": cluster_domain,
            "restartedAt": deployment.metadata.annotations.get(labels.RESTARTED_AT),
        }
    )
