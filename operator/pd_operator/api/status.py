"""The status subresource: typed, so that the CRD's schema for it is complete."""

from typing import Annotated, Literal

from pydantic import Field

from pd_operator.api.base import ApiModel

Text = Annotated[str, Field(max_length=32768)]
Timestamp = Annotated[str, Field(json_schema_extra={"format": "date-time"})]


class Condition(ApiModel):
    """A Kubernetes condition; `type` is unique in the list."""

    type: Annotated[str, Field(max_length=316)]
    status: Literal["True", "False", "Unknown"]
    observed_generation: int = 0
    last_transition_time: Timestamp
    reason: Annotated[str, Field(max_length=1024)]
    message: Text = ""


class TierStatus(ApiModel):
    """One tier, all revisions together."""

    replicas: int = 0
    """Pods that exist."""
    ready_replicas: int = 0
    updated_replicas: int = 0
    """Pods of the current revision."""
    desired_replicas: int = 0
    revision: Annotated[str, Field(max_length=63)] = ""
    selector: Annotated[str, Field(max_length=1024)] = ""
    """Label selector of the tier's pods, for the scale subresource."""


class ScalingStatus(ApiModel):
    """The autoscaler's last decision for one tier."""

    current: int
    desired: int
    reason: Annotated[str, Field(max_length=128)]
    message: Text = ""
    time: Timestamp


class ScalingByTier(ApiModel):
    """Last decision per tier."""

    prefill: ScalingStatus | None = None
    decode: ScalingStatus | None = None


class LatencyStatus(ApiModel):
    """What the proxy measured lately, as text such as `0.12s`, for the printer columns."""

    ttft: Annotated[str, Field(max_length=32)] = ""
    tpot: Annotated[str, Field(max_length=32)] = ""


class PDDeploymentStatus(ApiModel):
    """What the operator observed."""

    observed_generation: int = 0
    mode: Annotated[str, Field(max_length=63)] = ""
    """`Disaggregated` or `Colocated`, as the latest revision is."""
    url: Annotated[str, Field(max_length=512)] = ""
    """OpenAI-compatible base URL within the cluster."""
    pairing: Annotated[str, Field(max_length=63)] = ""
    spec_hash: Annotated[str, Field(max_length=63)] = ""
    """Stands for the spec with its presets; empty without presets."""
    prefill: TierStatus | None = None
    """Absent in mode Colocated once the last prefiller is gone."""
    decode: TierStatus | None = None
    scaling: ScalingByTier | None = None
    latency: LatencyStatus | None = None
    conditions: Annotated[
        tuple[Condition, ...],
        Field(
            max_length=32,
            json_schema_extra={
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["type"],
            },
        ),
    ] = ()
