"""A tier's StatefulSet of the current revision."""

from dataclasses import dataclass

from pd_operator.api.deployment import PDDeployment
from pd_operator.build import names
from pd_operator.build.engine_pod import pod_spec
from pd_operator.build.hashing import short_hash
from pd_operator.build.inputs import inputs
from pd_operator.build.manifest import Manifest, child, child_labels, selector
from pd_operator.build.overrides import overridden
from pd_operator.build.pairing import pairing
from pd_operator.build.parts import Tier, tier_part
from pd_shared import labels


@dataclass(frozen=True)
class TierChild:
    """A tier of one revision; `stateful_set` has no replicas: planning sets them."""

    component: str
    name: str
    revision: str
    pairing: str
    stateful_set: Manifest
    inputs: str
    """Hash of what it is made from; see `pd_operator.adopt`."""
    group_size: int = 1
    """Pods of a replica."""


def tier_child(deployment: PDDeployment, component: str, cluster_domain: str) -> TierChild:
    """The tier `component`: prefiller or decoder.

    The revision is a hash of the pod template and part of the StatefulSet's name, so that a
    template never changes in place.
    """
    name = deployment.metadata.name
    tier = Tier(deployment, component, cluster_domain)
    part = tier_part(tier)
    pair = pairing(part)
    annotations = {labels.DEPLOYMENT_UID: deployment.metadata.uid, **part.annotations}
    if restarted := deployment.metadata.annotations.get(labels.RESTARTED_AT):
        annotations[labels.RESTARTED_AT] = restarted
    pod_labels = {**child_labels(name, component), labels.PAIRING: pair, **part.labels}
    pod = pod_spec(tier, part)
    if patch := tier.spec.pod_overrides:
        pod_labels = {**patch.metadata.labels, **pod_labels}
        annotations = {**patch.metadata.annotations, **annotations}
        pod = overridden(pod, patch.spec)
    revision = short_hash({"labels": pod_labels, "annotations": annotations, "spec": pod})

    own_labels = {**pod_labels, labels.REVISION: revision}
    set_name = names.stateful_set(name, component, revision)
    manifest = child(
        deployment,
        "apps/v1",
        "StatefulSet",
        set_name,
        component,
        spec={
            "serviceName": names.tier(name, component),
            "podManagementPolicy": "Parallel",
            "updateStrategy": {"type": "OnDelete"},
            "selector": {"matchLabels": {**selector(name, component), labels.REVISION: revision}},
            "template": {
                "metadata": {"labels": dict(own_labels), "annotations": annotations},
                "spec": pod,
            },
        },
    )
    made_from = inputs(deployment, component, cluster_domain)
    manifest["metadata"]["labels"] = own_labels
    manifest["metadata"]["annotations"] = {labels.INPUTS: made_from, **part.set_annotations}
    return TierChild(
        component, set_name, revision, pair, manifest, made_from, tier.spec.parallelism.nodes
    )
