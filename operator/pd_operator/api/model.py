"""`spec.model`: what is served and where its weights come from."""

from typing import Annotated, ClassVar

from pydantic import Field

from pd_operator.api.base import ApiModel, DnsSubdomain, Rule


class SecretKey(ApiModel):
    """One key of a Secret in the PDDeployment's namespace."""

    name: DnsSubdomain
    key: Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[-._a-zA-Z0-9]+$")] = "token"
    """Key within the Secret. Default: `token`."""


class HuggingFaceSource(ApiModel):
    """Weights from the Hugging Face hub, downloaded by the engine at start."""

    revision: (
        Annotated[
            str, Field(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9][-A-Za-z0-9._/]*$")
        ]
        | None
    ) = None
    """Branch, tag or commit. Default: the repository's default branch."""
    token_secret: SecretKey | None = None
    """Secret with the access token of a gated repository, passed as HF_TOKEN."""


class PvcSource(ApiModel):
    """Weights on a PersistentVolumeClaim in the PDDeployment's namespace, mounted read only."""

    claim_name: DnsSubdomain
    path: Annotated[
        str,
        Field(
            max_length=512,
            pattern=r"^([A-Za-z0-9][-A-Za-z0-9._]*(/[-A-Za-z0-9_][-A-Za-z0-9._]*)*)?$",
        ),
    ] = ""
    """Folder of the model in the volume, without a leading slash. Default: the volume's root."""


class LocalSource(ApiModel):
    """Weights that the engine image already holds."""

    path: Annotated[
        str, Field(min_length=2, max_length=512, pattern=r"^(/[-A-Za-z0-9_][-A-Za-z0-9._]*)+$")
    ]
    """Absolute folder of the model within the image."""


class ModelSource(ApiModel):
    """Exactly one of its fields says where the weights come from."""

    hugging_face: HuggingFaceSource | None = None
    pvc: PvcSource | None = None
    local: LocalSource | None = None

    cel: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "[has(self.huggingFace), has(self.pvc), has(self.local)].filter(x, x).size() == 1",
            "source must set exactly one of huggingFace, pvc, local",
        ),
    )


class ModelSpec(ApiModel):
    """The model that both tiers serve."""

    id: Annotated[
        str,
        Field(
            min_length=1,
            max_length=256,
            pattern=r"^[A-Za-z0-9][-A-Za-z0-9._]*(/[A-Za-z0-9][-A-Za-z0-9._]*)?$",
        ),
    ]
    """Hugging Face repository (`org/name`), or a plain name where the source is pvc or local."""
    served_name: (
        Annotated[
            str, Field(min_length=1, max_length=256, pattern=r"^[A-Za-z0-9][-A-Za-z0-9._/:]*$")
        ]
        | None
    ) = None
    """Name that clients send as `model`. Default: `id`."""
    source: ModelSource = ModelSource(hugging_face=HuggingFaceSource())
    """Default: Hugging Face without a token."""
