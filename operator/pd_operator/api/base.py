"""What all API models have in common: camelCase names, frozen, unknown fields refused."""

from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel


@dataclass(frozen=True)
class Rule:
    """A CEL rule of the CRD, evaluated by the API server at apply.

    `expression` sees the object as `self`; `message` names the field and what is allowed.
    """

    expression: str
    message: str


class ApiModel(BaseModel):
    """Base of every object in a PDDeployment's spec."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        populate_by_name=True,
        extra="forbid",
        frozen=True,
        use_attribute_docstrings=True,
    )

    cel: ClassVar[tuple[Rule, ...]] = ()


DnsLabel = Annotated[
    str, Field(min_length=1, max_length=63, pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
]
"""A DNS-1123 label, as Kubernetes uses for most object names."""

DnsSubdomain = Annotated[
    str,
    Field(
        min_length=1,
        max_length=253,
        pattern=r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
    ),
]
"""A DNS-1123 subdomain: names of PersistentVolumeClaims and Secrets."""

ResourceName = Annotated[
    str,
    Field(
        max_length=128,
        pattern=r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$",
    ),
]
"""A Kubernetes resource name such as `rdma/hca_shared_devices_a`."""

ImageReference = Annotated[
    str, Field(min_length=1, max_length=512, pattern=r"^[A-Za-z0-9][-A-Za-z0-9._:/@]*$")
]
"""A container image reference."""

FolderInVolume = Annotated[
    str,
    Field(
        max_length=512,
        pattern=r"^([A-Za-z0-9][-A-Za-z0-9._]*(/[-A-Za-z0-9_][-A-Za-z0-9._]*)*)?$",
    ),
]
"""A folder within a volume; empty for its root."""
