"""Where the pods of a tier go."""

from typing import Any

from pd_operator.build.manifest import selector
from pd_operator.build.parts.part import Part, Tier


def part(tier: Tier) -> Part:
    """The user's placement; and pods of a tier are spread over nodes where that is possible."""
    pod: dict[str, Any] = {}
    if tier.spec.node_selector:
        pod["nodeSelector"] = dict(tier.spec.node_selector)
    if tier.spec.tolerations:
        pod["tolerations"] = [
            toleration.model_dump(by_alias=True, exclude_none=True, mode="json")
            for toleration in tier.spec.tolerations
        ]
    apart = {
        "weight": 100,
        "podAffinityTerm": {
            "topologyKey": "kubernetes.io/hostname",
            "labelSelector": {"matchLabels": selector(tier.name, tier.component)},
        },
    }
    return Part(
        pod=pod,
        affinity={"podAntiAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": (apart,)}},
    )
