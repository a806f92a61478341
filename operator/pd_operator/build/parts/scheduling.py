"""How the scheduler treats the pods of a tier: classes, spreading, nearness of the tiers."""

from typing import Any

from pd_operator.build.manifest import Manifest, selector
from pd_operator.build.parts.part import Part, Tier
from pd_operator.build.pull_secrets import pull_secrets
from pd_shared import labels

_PREFERRED = "preferredDuringSchedulingIgnoredDuringExecution"
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def part(tier: Tier) -> Part:
    """Only what the user asks for."""
    pod: dict[str, Any] = pull_secrets(tier.deployment)
    if tier.spec.runtime_class_name:
        pod["runtimeClassName"] = tier.spec.runtime_class_name
    if tier.spec.priority_class_name:
        pod["priorityClassName"] = tier.spec.priority_class_name
    if tier.spec.topology_spread:
        pod["topologySpreadConstraints"] = _spread(tier)
    return Part(pod=pod, affinity=_near(tier))


def _spread(tier: Tier) -> list[Manifest]:
    return [
        {
            "maxSkew": rule.max_skew,
            "topologyKey": rule.topology_key,
            "whenUnsatisfiable": rule.when_unsatisfiable,
            "labelSelector": {"matchLabels": selector(tier.name, tier.component)},
            # Pods of the revision that goes do not count, or a rollout would come out crooked.
            "matchLabelKeys": [labels.REVISION],
        }
        for rule in tier.spec.topology_spread
    ]


def _near(tier: Tier) -> dict[str, dict[str, tuple[Manifest, ...]]]:
    near = tier.deployment.spec.placement.near
    if near is None:
        return {}
    term: Manifest = {
        "topologyKey": near.topology_key,
        # Holds for the pod itself too: else the first pod, with none to be near to, would wait
        # for ever.
        "labelSelector": {
            "matchLabels": {labels.DEPLOYMENT: tier.name},
            "matchExpressions": [
                {
                    "key": labels.COMPONENT,
                    "operator": "In",
                    "values": [labels.PREFILLER, labels.DECODER],
                }
            ],
        },
    }
    if near.required:
        return {"podAffinity": {_REQUIRED: (term,)}}
    return {"podAffinity": {_PREFERRED: ({"weight": 100, "podAffinityTerm": term},)}}
