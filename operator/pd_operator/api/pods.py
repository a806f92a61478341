"""What users add to engine pods: environment variables, volumes and mounts."""

from typing import Annotated, ClassVar, Final, Literal

from pydantic import Field

from pd_operator.api.base import ApiModel, DnsLabel, DnsSubdomain, Rule
from pd_operator.api.values import Quantity

OWNED_VARIABLES: Final = (
    "HF_HUB_OFFLINE",
    "HF_TOKEN",
    "MC_FORCE_HCA",
    "MC_FORCE_TCP",
    "MC_TE_FILTERS",
    "MOONCAKE_CONFIG_PATH",
    "PYTHONHASHSEED",
    "VLLM_API_KEY",
    "VLLM_HOST_IP",
    "VLLM_MOONCAKE_ABORT_REQUEST_TIMEOUT",
    "VLLM_MOONCAKE_BOOTSTRAP_PORT",
    "VLLM_PORT",
)
"""Variables that the operator sets from typed fields, or that would cut the proxy off."""

OWNED_VOLUMES: Final = ("model", "mooncake", "shm", "tmp")
"""Names of the operator's own volumes in engine pods."""

_KEY: Final = r"^[-._a-zA-Z0-9]+$"


def _listed(words: tuple[str, ...]) -> str:
    return "[" + ", ".join(f"'{word}'" for word in words) + "]"


class KeyReference(ApiModel):
    """One key of a Secret or ConfigMap in the PDDeployment's namespace."""

    name: DnsSubdomain
    """Name of the Secret or ConfigMap. Becomes: `name` of the variable's reference."""
    key: Annotated[str, Field(min_length=1, max_length=253, pattern=_KEY)]
    """Key within it. Becomes: `key` of the variable's reference."""
    optional: bool = False
    """Whether the pod may start where the object or its key is missing. Default: false.

    Becomes: `optional` of the variable's reference.
    """


class VariableSource(ApiModel):
    """Exactly one of its fields says where a variable's value comes from."""

    secret_key_ref: KeyReference | None = None
    config_map_key_ref: KeyReference | None = None

    cel: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "has(self.secretKeyRef) != has(self.configMapKeyRef)",
            "valueFrom must set exactly one of secretKeyRef, configMapKeyRef",
        ),
    )


class Variable(ApiModel):
    """An environment variable of the engine container."""

    name: Annotated[str, Field(min_length=1, max_length=128, pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
    """Unique in its list; variables that the operator sets are refused.

    Becomes: `name` of a variable of the engine container.
    """
    value: Annotated[str, Field(max_length=4096)] | None = None
    """Text, in which `$(NAME)` refers to a variable set before. Default: empty.

    Becomes: `value` of the variable.
    """
    value_from: VariableSource | None = None
    """Instead of `value`: a key of a Secret or ConfigMap, read at each start of the pod."""

    cel: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "!has(self.value) || !has(self.valueFrom)",
            "a variable must not set both value and valueFrom",
        ),
        Rule(
            f"!(self.name in {_listed(OWNED_VARIABLES)})",
            f"env must not set a variable that the operator owns: {', '.join(OWNED_VARIABLES)}",
        ),
    )


Variables = Annotated[
    tuple[Variable, ...],
    Field(
        max_length=64,
        json_schema_extra={
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
        },
    ),
]


class ConfigMapVolume(ApiModel):
    """All keys of a ConfigMap as files."""

    name: DnsSubdomain
    """Name of the ConfigMap in the PDDeployment's namespace. Becomes: `configMap.name`."""


class SecretVolume(ApiModel):
    """All keys of a Secret as files."""

    secret_name: DnsSubdomain
    """Name of the Secret in the PDDeployment's namespace. Becomes: `secret.secretName`."""


class ClaimVolume(ApiModel):
    """A PersistentVolumeClaim; all pods of the tier mount the same one."""

    claim_name: DnsSubdomain
    """Name of the claim in the PDDeployment's namespace.

    Becomes: `persistentVolumeClaim.claimName`.
    """
    read_only: bool = False
    """Whether it is mounted read only. Default: false.

    Becomes: `persistentVolumeClaim.readOnly`.
    """


class ScratchVolume(ApiModel):
    """An empty folder that goes with the pod."""

    medium: Literal["Memory"] | None = None
    """`Memory`: what is written counts towards the memory limit. Default: the node's disk.

    Becomes: `emptyDir.medium`.
    """
    size_limit: Quantity | None = None
    """At most this much. Default: no limit of its own. Becomes: `emptyDir.sizeLimit`."""


class PodVolume(ApiModel):
    """A volume of the tier's pods; exactly one field beside `name` says what it is."""

    name: DnsLabel
    """Unique in its list; names of the operator's own volumes are refused.

    Becomes: `name` of a volume of the tier's pods.
    """
    config_map: ConfigMapVolume | None = None
    secret: SecretVolume | None = None
    persistent_volume_claim: ClaimVolume | None = None
    empty_dir: ScratchVolume | None = None

    cel: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "[has(self.configMap), has(self.secret), has(self.persistentVolumeClaim),"
            " has(self.emptyDir)].filter(x, x).size() == 1",
            "a volume must set exactly one of configMap, secret, persistentVolumeClaim, emptyDir"
            " (hostPath is not allowed)",
        ),
        Rule(
            f"!(self.name in {_listed(OWNED_VOLUMES)})",
            f"volumes must not use a name of the operator's own: {', '.join(OWNED_VOLUMES)}",
        ),
    )


class PodMount(ApiModel):
    """Where the engine container sees one of the tier's volumes."""

    name: DnsLabel
    """Name of an element of `volumes`. Becomes: `name` of a mount of the engine container."""
    mount_path: Annotated[
        str,
        Field(min_length=2, max_length=512, pattern=r"^(/\.?[-A-Za-z0-9_][-A-Za-z0-9._]*)+$"),
    ]
    """Absolute folder in the container; folders of the operator and of the system are refused.

    Becomes: `mountPath` of the mount.
    """
    sub_path: (
        Annotated[
            str,
            Field(
                min_length=1,
                max_length=512,
                pattern=r"^\.?[-A-Za-z0-9_][-A-Za-z0-9._]*(/\.?[-A-Za-z0-9_][-A-Za-z0-9._]*)*$",
            ),
        ]
        | None
    ) = None
    """Folder or file within the volume. Default: its root. Becomes: `subPath` of the mount."""
    read_only: bool = False
    """Whether the container must not write. Default: false. Becomes: `readOnly` of the mount."""


Volumes = Annotated[
    tuple[PodVolume, ...],
    Field(
        max_length=32,
        json_schema_extra={
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["name"],
        },
    ),
]

Mounts = Annotated[
    tuple[PodMount, ...],
    Field(
        max_length=32,
        json_schema_extra={
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["mountPath"],
        },
    ),
]
