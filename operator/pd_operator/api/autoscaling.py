"""`spec.autoscaling`: from TTFT and TPOT to replicas."""

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field

from pd_operator.api.base import ApiModel, Rule
from pd_operator.api.values import Duration


class Mode(StrEnum):
    """What the autoscaler may do."""

    OFF = "Off"
    ADVISE = "Advise"
    AUTO = "Auto"


class SLO(ApiModel):
    """Targets at the 95th percentile."""

    ttft: Duration | None = None
    """Time to first token, at the proxy. Becomes: what the prefillers are scaled by."""
    tpot: Duration | None = None
    """Time per output token after the first, per request, at the proxy.

    Becomes: what the decoders are scaled by.
    """


class TierBounds(ApiModel):
    """How few and how many pods a tier may have."""

    min: Annotated[int, Field(ge=1, le=1000)] = 1
    """Fewest replicas. Default: 1. Becomes: the lower bound of every scaling decision."""
    max: Annotated[int, Field(ge=1, le=1000)] = 1
    """Most replicas. Default: 1. Becomes: the upper bound of every scaling decision."""

    cel: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "(has(self.min) ? self.min : 1) <= (has(self.max) ? self.max : 1)",
            "max must be at least min (default of both: 1)",
        ),
    )


class ScaleDown(ApiModel):
    """How slowly a tier shrinks."""

    stabilization_window: Duration = "5m"
    """A tier shrinks only when less was enough for this long. Default: 5m.

    Becomes: the time over which the most that was needed counts.
    """


class AutoscalingSpec(ApiModel):
    """Scales each tier from what the proxy measures."""

    mode: Mode = Mode.OFF
    """`Off`; `Advise` decides and publishes but touches nothing; `Auto` scales. Default: `Off`.

    Becomes: `status.prefill.scaling` and `status.decode.scaling`; with `Auto` the tiers' replicas.
    """
    slo: SLO = SLO()
    prefill: TierBounds = TierBounds()
    decode: TierBounds = TierBounds()
    scale_down: ScaleDown = ScaleDown()

    cel: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(self.mode) || self.mode == 'Off'"
            " || (has(self.slo) && (has(self.slo.ttft) || has(self.slo.tpot)))",
            "slo.ttft or slo.tpot must be set where mode is Advise or Auto",
        ),
    )
