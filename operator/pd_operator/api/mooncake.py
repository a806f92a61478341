"""`spec.mooncake`: Mooncake's own parts."""

from typing import ClassVar

from pd_operator.api.base import ApiModel, ImageReference, Rule
from pd_operator.api.values import Quantity


class StoreSpec(ApiModel):
    """Mooncake Store: a KV cache shared by all engines of the deployment."""

    enabled: bool = False
    """Runs a Mooncake master with its metadata service and connects the engines to it.

    Default: false. Becomes: the Deployment `<name>-mooncake`, and `MOONCAKE_CONFIG_PATH`.
    """
    segment_size: Quantity = "4Gi"
    """Memory that each engine rank gives to the store. Default: 4Gi.

    Becomes: `global_segment_size` of the store's configuration.
    """
    local_buffer_size: Quantity = "1Gi"
    """Transfer buffer of each engine rank. Default: 1Gi.

    Becomes: `local_buffer_size` of the store's configuration.
    """

    cel: ClassVar[tuple[Rule, ...]] = tuple(
        Rule(
            f"!has(self.{name}) || type(self.{name}) == string || self.{name} > 0",
            f"{name} must be more than zero",
        )
        for name in ("segmentSize", "localBufferSize")
    )


class MooncakeSpec(ApiModel):
    """Mooncake's own parts."""

    store: StoreSpec = StoreSpec()
    image: ImageReference | None = None
    """Image with `mooncake_master`. Default: the image that the operator was installed with.

    Becomes: the image of the container `master`.
    """
