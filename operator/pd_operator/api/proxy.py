"""`spec.proxy`: the proxy in front of both tiers."""

from typing import Annotated

from pydantic import Field

from pd_operator.api.base import ApiModel, ImageReference


class ProxySpec(ApiModel):
    """The proxy in front of both tiers."""

    replicas: Annotated[int, Field(ge=1, le=100)] | None = None
    """Default: 2."""
    image: ImageReference | None = None
    """Default: the image that the operator was installed with."""
