"""`podOverrides` of a tier: what no typed field says of its pods."""

from typing import Annotated, Any

from pydantic import Field, WithJsonSchema

from pd_operator.api.base import ApiModel

Key = Annotated[str, Field(min_length=1, max_length=317)]


class OverriddenMetadata(ApiModel):
    """More labels and annotations of the tier's pods."""

    labels: Annotated[dict[Key, Annotated[str, Field(max_length=63)]], Field(max_length=32)] = {}
    """Labels of the pods; those of the operator and of Kubernetes are refused.

    Becomes: `metadata.labels` of the pod template.
    """
    annotations: Annotated[
        dict[Key, Annotated[str, Field(max_length=4096)]], Field(max_length=32)
    ] = {}
    """Annotations of the pods; those of the operator are refused.

    Becomes: `metadata.annotations` of the pod template.
    """


class PodOverrides(ApiModel):
    """A strategic merge patch of the tier's pod template: lists are merged by name where
    Kubernetes does so. What the operator owns is refused."""

    metadata: OverriddenMetadata = OverriddenMetadata()
    spec: Annotated[
        dict[str, Any],
        WithJsonSchema(
            {
                "type": "object",
                "maxProperties": 32,
                "x-kubernetes-preserve-unknown-fields": True,
            }
        ),
    ] = {}
    """Fields of a pod's spec, such as `dnsConfig`, more containers, or the engine container's
    `securityContext` by the name `engine`. A change replaces this tier's pods alone.

    Becomes: merged into the `spec` of the pod template.
    """
