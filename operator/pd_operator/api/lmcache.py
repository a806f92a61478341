"""`spec.lmcache`: LMCache, in the engines or as a server."""

from typing import Annotated

from pydantic import Field

from pd_operator.api.base import ApiModel, ImageReference
from pd_operator.api.values import Quantity


class LMCacheTierSpec(ApiModel):
    """LMCache in the engines of one tier."""

    local_cpu: bool = False
    """Keeps KV in the pod's own memory as well. Default: false. Becomes: `local_cpu`."""
    local_cpu_size: Quantity = "5Gi"
    """Memory of each engine rank for LMCache: its cache with localCpu, its buffer without. Default:
    5Gi. Becomes: `max_local_cpu_size`, in GiB."""


class LMCacheServerSpec(ApiModel):
    """The LMCache server of connector LMCacheMP."""

    image: ImageReference | None = None
    """Image with `lmcache`. Default: engine.image. Becomes: the image of `<name>-lmcache`."""
    memory: Quantity = "4Gi"
    """Memory for KV; the pod takes 2Gi more. Default: 4Gi. Becomes: `--l1-size-gb`."""


class LMCacheSpec(ApiModel):
    """LMCache, with kvTransfer.connector LMCache or LMCacheMP."""

    chunk_size: Annotated[int, Field(ge=16, le=65536)] = 256
    """Tokens that are stored together. Default: 256. Becomes: `chunk_size`, or `--chunk-size` of
    the server."""
    prefill: LMCacheTierSpec | None = None
    """The prefillers; only with connector LMCache. Becomes: the ConfigMap
    `<name>-prefiller-lmcache`."""
    decode: LMCacheTierSpec | None = None
    """The decoders; only with connector LMCache. Becomes: the ConfigMap
    `<name>-decoder-lmcache`."""
    server: LMCacheServerSpec | None = None
    """The server; only with connector LMCacheMP. Becomes: `<name>-lmcache`."""
