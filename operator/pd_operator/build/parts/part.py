"""What one feature adds to the engine pods of a tier."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from pd_operator.api.deployment import PDDeployment
from pd_operator.api.tier import TierSpec
from pd_operator.build.manifest import Manifest
from pd_shared import labels


@dataclass(frozen=True)
class Tier:
    """For what a part is made: one tier of a deployment."""

    deployment: PDDeployment
    component: str
    """`prefiller` or `decoder`."""
    cluster_domain: str

    @property
    def name(self) -> str:
        """The PDDeployment's name."""
        return self.deployment.metadata.name

    @property
    def colocated(self) -> bool:
        """Whether this tier is the only one, and moves no KV."""
        return self.deployment.spec.colocated

    @property
    def is_prefiller(self) -> bool:
        """Whether this is the tier that makes the KV."""
        return self.component == labels.PREFILLER

    @property
    def spec(self) -> TierSpec:
        """`spec.prefill` or `spec.decode`."""
        spec = self.deployment.spec
        return spec.prefill if self.is_prefiller else spec.decode

    @property
    def image(self) -> str:
        """The image of this tier's engines."""
        return self.spec.image or self.deployment.spec.engine.image


@dataclass(frozen=True)
class Part:
    """What a feature adds; all parts of a tier are put together by `combined`.

    Two parts must not set the same thing: `combined` refuses it.
    """

    args: tuple[str, ...] = ()
    """Arguments of `vllm serve`, in the order of the parts."""
    env: Mapping[str, str] = field(default_factory=dict)
    """Environment of the engine container."""
    env_from: Mapping[str, Manifest] = field(default_factory=dict)
    """Environment from elsewhere: name to `valueFrom`."""
    first_env: Mapping[str, Manifest] = field(default_factory=dict)
    """Like `env_from`, before all others, so that others may refer to it as `$(NAME)`."""
    user_env: tuple[Manifest, ...] = ()
    """The user's own variables, last; whole EnvVar objects."""
    ports: tuple[tuple[str, int], ...] = ()
    """Names and numbers of TCP ports of the engine container."""
    volumes: tuple[Manifest, ...] = ()
    mounts: tuple[Manifest, ...] = ()
    """Mounts of the engine container."""
    init_containers: tuple[Manifest, ...] = ()
    """Before the engine, in the order of the parts."""
    devices: Mapping[str, int] = field(default_factory=dict)
    """Extended resources that the engine container asks for, beside the user's resources."""
    capabilities: tuple[str, ...] = ()
    """Linux capabilities of the engine container."""
    image_user: bool = False
    """Whether the image says which user the engine is; else it is the restricted profile's."""
    annotations: Mapping[str, str] = field(default_factory=dict)
    """Annotations of the pod."""
    set_annotations: Mapping[str, str] = field(default_factory=dict)
    """Annotations of the StatefulSet alone."""
    labels: Mapping[str, str] = field(default_factory=dict)
    """Labels of the pod and the StatefulSet; no selector uses them."""
    pod: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the pod's spec, such as `nodeSelector`."""
    affinity: Mapping[str, Mapping[str, tuple[Manifest, ...]]] = field(default_factory=dict)
    """Terms by kind (`nodeAffinity`) and list (`preferredDuring...`)."""
    container: Mapping[str, Any] = field(default_factory=dict)
    """Fields of the engine container that no other attribute has."""
    pairing: Mapping[str, Any] = field(default_factory=dict)
    """What prefiller and decoder must agree on to exchange KV, equal for both tiers; falsy values
    count as absent, so that a new field changes no pairing where it is not used."""


def combined(parts: Iterable[Part]) -> Part:
    """All parts as one; ValueError where two of them set the same key."""
    given = tuple(parts)
    values: dict[str, Any] = {}
    for one in fields(Part):
        found = [getattr(part, one.name) for part in given]
        if one.name == "affinity":
            values[one.name] = _affinity(found)
        elif one.name == "image_user":
            values[one.name] = any(found)
        elif isinstance(getattr(Part(), one.name), tuple):
            values[one.name] = tuple(item for items in found for item in items)
        else:
            values[one.name] = _disjoint(one.name, found)
    return Part(**values)


def _disjoint(what: str, maps: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    result: dict[str, Any] = {}
    for given in maps:
        if twice := result.keys() & given.keys():
            raise ValueError(f"two parts set {what} {sorted(twice)}")
        result |= given
    return result


def _affinity(
    maps: Iterable[Mapping[str, Mapping[str, tuple[Manifest, ...]]]],
) -> dict[str, dict[str, tuple[Manifest, ...]]]:
    result: dict[str, dict[str, tuple[Manifest, ...]]] = {}
    for given in maps:
        for kind, lists in given.items():
            for name, terms in lists.items():
                known = result.setdefault(kind, {})
                known[name] = (*known.get(name, ()), *terms)
    return result
