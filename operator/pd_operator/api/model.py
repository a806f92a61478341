"""`spec.model`: what is served and where its weights come from."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from pd_operator.api.adapters import MAX_ADAPTERS, Adapters, LoRARank
from pd_operator.api.base import ApiModel, DnsSubdomain, FolderInVolume, ImageReference, Rule


class SecretKey(ApiModel):
    """One key of a Secret in the PDDeployment's namespace."""

    name: DnsSubdomain
    """Name of the Secret. Becomes: `secretKeyRef.name`; the operator never reads it."""
    key: Annotated[str, Field(min_length=1, max_length=253, pattern=r"^[-._a-zA-Z0-9]+$")] = "token"
    """Key within the Secret. Default: `token`. Becomes: `secretKeyRef.key`."""


Pattern = Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[-A-Za-z0-9_.*?/]+$")]
"""A shell-like pattern of paths in a repository."""


class CacheSpec(ApiModel):
    """A PersistentVolumeClaim that keeps repositories of the hub: a Job downloads each once, with
    `engine.env`, where decoders run; engines of both tiers mount it read only and do not reach the
    hub. It may be shared by several PDDeployments, and be a cache of the hub (HF_HOME) already."""

    claim_name: DnsSubdomain
    """Name of the claim, which must be ReadWriteMany where pods are on several nodes.

    Becomes: the volume of the Job `<name>-model-<hash>`, and one at `/mnt/model`, read only, in the
    engines.
    """
    path: FolderInVolume = ""
    """Folder of the cache in the volume, without a leading slash. Default: the volume's root.

    Becomes: `HF_HOME` of the Job, and the first argument of `vllm serve`,
    `/mnt/model/<path>/pd-operator/<hash>`.
    """
    ignore: Annotated[tuple[Pattern, ...], Field(max_length=16)] = ()
    """Patterns of files that are not downloaded, such as `original/*`. Default: none.

    Becomes: `ignore_patterns` of the download.
    """


class HuggingFaceSource(ApiModel):
    """Weights from the Hugging Face hub: downloaded by each engine at its start, or once into a
    cache."""

    revision: (
        Annotated[
            str, Field(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9][-A-Za-z0-9._/]*$")
        ]
        | None
    ) = None
    """Branch, tag or commit. Default: the repository's default branch.

    Becomes: `--revision`; with `cache` the revision that is downloaded.
    """
    token_secret: SecretKey | None = None
    """Secret with the access token of a gated repository.

    Becomes: the variable `HF_TOKEN` of the engines; with `cache` of the download Job alone.
    """
    cache: CacheSpec | None = None
    """Where weights are kept between starts. Default: nowhere, each engine downloads them."""


class PvcSource(ApiModel):
    """Weights on a PersistentVolumeClaim in the PDDeployment's namespace, mounted read only."""

    claim_name: DnsSubdomain
    """Name of the claim. Becomes: a volume at `/mnt/model`, read only."""
    path: FolderInVolume = ""
    """Folder of the model in the volume, without a leading slash. Default: the volume's root.

    Becomes: the first argument of `vllm serve`, `/mnt/model/<path>`.
    """


class OciSource(ApiModel):
    """Weights in an OCI image or artifact, mounted read only by the kubelet: nodes keep it like
    any image, and `engine.imagePullSecrets` is used to pull it. Needs Kubernetes' image volumes:
    1.33 with the feature gate ImageVolume, on by default from 1.35."""

    image: ImageReference
    """Reference of the image or artifact. Becomes: an `image` volume at `/mnt/model`."""
    pull_policy: Literal["Always", "IfNotPresent", "Never"] | None = None
    """When the node pulls it. Default: IfNotPresent, but Always with the tag latest.

    Becomes: `pullPolicy` of the volume.
    """
    path: FolderInVolume = ""
    """Folder of the model in the image, without a leading slash. Default: the image's root.

    Becomes: the first argument of `vllm serve`, `/mnt/model/<path>`.
    """


class LocalSource(ApiModel):
    """Weights that the engine image already holds."""

    path: Annotated[
        str, Field(min_length=2, max_length=512, pattern=r"^(/[-A-Za-z0-9_][-A-Za-z0-9._]*)+$")
    ]
    """Absolute folder of the model within the image.

    Becomes: the first argument of `vllm serve`, and `HF_HUB_OFFLINE=1`.
    """


class ModelSource(ApiModel):
    """Exactly one of its fields says where the weights come from."""

    hugging_face: HuggingFaceSource | None = None
    pvc: PvcSource | None = None
    local: LocalSource | None = None
    oci: OciSource | None = None

    cel: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "[has(self.huggingFace), has(self.pvc), has(self.local), has(self.oci)]"
            ".filter(x, x).size() == 1",
            "source must set exactly one of huggingFace, pvc, local, oci",
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
    """Hugging Face repository (`org/name`), or a plain name where the source is another one.

    Becomes: the first argument of `vllm serve` where the source is Hugging Face without a cache.
    """
    served_name: (
        Annotated[
            str, Field(min_length=1, max_length=256, pattern=r"^[A-Za-z0-9][-A-Za-z0-9._/:]*$")
        ]
        | None
    ) = None
    """Name that clients send as `model`. Default: `id`. Becomes: `--served-model-name`."""
    source: ModelSource = ModelSource(hugging_face=HuggingFaceSource())
    """Where the weights come from: exactly one of its fields. Default: Hugging Face, no token."""
    adapters: Adapters = ()
    """LoRA adapters, served beside the model under names of their own. They are loaded at the
    start: another list rolls both tiers. Default: none.

    Becomes: `--enable-lora` and `--lora-modules` on both tiers; part of the pairing.
    """
    max_lora_rank: LoRARank | None = None
    """Largest rank of the adapters: 1, 8, 16, 32, 64, 128, 256, 320 or 512. Default: vLLM's, 16.

    Becomes: `--max-lora-rank`; part of the pairing.
    """
    max_loras: Annotated[int, Field(ge=1, le=MAX_ADAPTERS)] | None = None
    """Adapters in one batch; each takes memory for its rank. Default: as many as there are.

    Becomes: `--max-loras`.
    """
