"""`spec.model.adapters`: LoRA adapters."""

from enum import IntEnum
from typing import Annotated, ClassVar, Final

from pydantic import Field

from pd_operator.api.base import ApiModel, DnsSubdomain, FolderInVolume, Rule

MAX_ADAPTERS: Final = 16

LORA_FLAGS: Final = ("--enable-lora", "--lora-modules", "--max-lora-rank", "--max-loras")
"""Flags of `vllm serve` that the adapters become."""


class LoRARank(IntEnum):
    """vLLM's MaxLoRARanks."""

    R1 = 1
    R8 = 8
    R16 = 16
    R32 = 32
    R64 = 64
    R128 = 128
    R256 = 256
    R320 = 320
    R512 = 512


class AdapterRepository(ApiModel):
    """An adapter on the Hugging Face hub, reached like the model: with its token, through its
    cache."""

    id: Annotated[
        str,
        Field(
            min_length=1,
            max_length=256,
            pattern=r"^[A-Za-z0-9][-A-Za-z0-9._]*(/[A-Za-z0-9][-A-Za-z0-9._]*)?$",
        ),
    ]
    """Repository (`org/name`). Becomes: the path in `--lora-modules`; with a cache its folder."""
    revision: (
        Annotated[
            str, Field(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9][-A-Za-z0-9._/]*$")
        ]
        | None
    ) = None
    """Branch, tag or commit; only with a cache, since vLLM itself takes none. Default: the
    repository's default branch.

    Becomes: the revision that is downloaded.
    """


class AdapterClaim(ApiModel):
    """An adapter on a PersistentVolumeClaim, mounted read only; it may be the model's claim."""

    claim_name: DnsSubdomain
    """Name of the claim. Becomes: a volume at `/mnt/adapters/<n>`, one for each claim."""
    path: FolderInVolume = ""
    """Folder of the adapter in the volume, without a leading slash. Default: the volume's root.

    Becomes: the path in `--lora-modules`.
    """


class AdapterFolder(ApiModel):
    """An adapter that the engine image already holds."""

    path: Annotated[
        str, Field(min_length=2, max_length=512, pattern=r"^(/[-A-Za-z0-9_][-A-Za-z0-9._]*)+$")
    ]
    """Absolute folder of the adapter within the image. Becomes: the path in `--lora-modules`."""


class AdapterSource(ApiModel):
    """Exactly one of its fields says where an adapter comes from."""

    hugging_face: AdapterRepository | None = None
    pvc: AdapterClaim | None = None
    local: AdapterFolder | None = None

    cel: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "[has(self.huggingFace), has(self.pvc), has(self.local)].filter(x, x).size() == 1",
            "source of an adapter must set exactly one of huggingFace, pvc, local",
        ),
    )


class Adapter(ApiModel):
    """One LoRA adapter, which both tiers load at their start."""

    name: Annotated[
        str, Field(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9][-A-Za-z0-9._/:]*$")
    ]
    """Name that clients send as `model`; unique, and not the model's own. KV is kept by this name
    and the path: an adapter with other weights needs another one of both where KV is stored.

    Becomes: the name in `--lora-modules`, and one of the proxy's served names.
    """
    source: AdapterSource
    """Where it comes from: exactly one of its fields."""


Adapters = Annotated[
    tuple[Adapter, ...],
    Field(
        max_length=MAX_ADAPTERS,
        json_schema_extra={
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
        },
    ),
]

_NONE: Final = "!has(self.model.adapters) || self.model.adapters.size() == 0 || "
_HUB: Final = "!has(self.model.source) || has(self.model.source.huggingFace)"
_CACHE: Final = (
    "has(self.model.source) && has(self.model.source.huggingFace)"
    " && has(self.model.source.huggingFace.cache)"
)

ADAPTER_RULES: Final = (
    Rule(
        f"{_NONE}!self.model.adapters.exists(a, a.name =="
        " (has(self.model.servedName) ? self.model.servedName : self.model.id))",
        "model.adapters[].name must differ from model.servedName (model.id where it is not set)",
    ),
    Rule(
        "has(self.model.adapters) && self.model.adapters.size() > 0"
        " || !(has(self.model.maxLoraRank) || has(self.model.maxLoras))",
        "model.maxLoraRank and model.maxLoras are only allowed where model.adapters is set",
    ),
    Rule(
        f"{_NONE}{_HUB} || !self.model.adapters.exists(a, has(a.source.huggingFace))",
        "model.adapters[].source.huggingFace is only allowed where model.source is huggingFace:"
        " the engines do not reach the hub",
    ),
    Rule(
        f"{_NONE}{_CACHE} || !self.model.adapters.exists(a, has(a.source.huggingFace)"
        " && has(a.source.huggingFace.revision))",
        "model.adapters[].source.huggingFace.revision is only allowed with"
        " model.source.huggingFace.cache: vLLM takes none",
    ),
    Rule(
        f"{_NONE}!has(self.engine.args) || !self.engine.args.exists(a, a.matches("
        "'^--(enable[-_]lora|lora[-_]modules|max[-_]lora[-_]rank|max[-_]loras)([=.]|$)'))",
        "engine.args must not contain --enable-lora, --lora-modules, --max-lora-rank or --max-loras"
        " where model.adapters is set: the operator sets them",
    ),
    Rule(
        f"{_NONE}!has(self.kvTransfer) || !has(self.kvTransfer.connector)"
        " || !(self.kvTransfer.connector in ['LMCache', 'LMCacheMP'])",
        "model.adapters is not allowed with kvTransfer.connector LMCache or LMCacheMP: their keys"
        " do not know adapters, so that one would get the KV of another",
    ),
)
"""Rules of the spec about adapters and what is around them."""
