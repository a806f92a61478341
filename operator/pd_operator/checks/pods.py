"""`env`, `volumes` and `volumeMounts`: nothing of the operator's own, nothing twice."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from pd_operator.api.deployment import PDDeployment
from pd_operator.api.pods import (
    OWNED_VARIABLES,
    OWNED_VOLUMES,
    PodVolume,
    Variable,
    VariableSource,
)
from pd_operator.api.tier import TierSpec
from pd_operator.api.values import quantity
from pd_operator.build.parts import Tier, operator_parts
from pd_operator.checks.problem import Problem
from pd_operator.checks.sizes import MAX, is_whole
from pd_shared import labels

AGREED_VARIABLES: Final = ("VLLM_KV_CACHE_LAYOUT",)
"""Variables on which the KV's layout depends: equal in both tiers."""

_SYSTEM: Final = (
    "/bin", "/boot", "/etc", "/lib", "/lib64", "/opt", "/run", "/sbin", "/usr", "/var",
)  # fmt: skip
"""Folders that hold the engine itself: nothing may be mounted in their place."""
_KERNEL: Final = ("/dev", "/proc", "/sys", "/var/run/secrets", "/run/secrets")
"""Folders of the container runtime: nothing may be mounted there at all."""


@dataclass(frozen=True)
class Owned:
    """What the operator itself puts into the engine pods of a tier."""

    variables: frozenset[str]
    volumes: frozenset[str]
    folders: frozenset[str]


def owned(deployment: PDDeployment, component: str) -> Owned:
    """The operator's own of a tier, and what it may come to own with other fields."""
    parts = operator_parts(Tier(deployment, component, "cluster.local"))
    local = deployment.spec.model.source.local
    variables = (
        name for part in parts for given in (part.env, part.env_from, part.first_env)
        for name in given
    )  # fmt: skip
    folders = (mount["mountPath"] for part in parts for mount in part.mounts)
    return Owned(
        frozenset({*variables, *OWNED_VARIABLES}),
        frozenset({*(v["name"] for part in parts for v in part.volumes), *OWNED_VOLUMES}),
        frozenset({*folders, *([local.path] if local else [])}),
    )


def pod_problems(deployment: PDDeployment) -> Iterator[Problem]:
    """What users add to engine pods."""
    spec = deployment.spec
    tiers = (
        ("spec.prefill", spec.prefill, owned(deployment, labels.PREFILLER)),
        ("spec.decode", spec.decode, owned(deployment, labels.DECODER)),
    )
    both = frozenset().union(*(own.variables for _, _, own in tiers))
    yield from _variables("spec.engine.env", spec.engine.env, both)
    for path, tier, own in tiers:
        yield from _variables(f"{path}.env", tier.env, own.variables)
        yield from _agreed(f"{path}.env", tier.env)
        yield from _volumes(f"{path}.volumes", tier.volumes, own)
        yield from _mounts(path, tier, own)


def _variables(
    path: str, variables: Iterable[Variable], names: frozenset[str]
) -> Iterator[Problem]:
    seen: set[str] = set()
    for index, variable in enumerate(variables):
        field = f"{path}[{index}]"
        if variable.name in names:
            yield Problem(
                "VariableSetByOperator",
                f"{field}.name",
                f"{field}.name must not be {variable.name}: the operator sets it",
            )
        if variable.name in seen:
            yield Problem(
                "InvalidVariable",
                f"{field}.name",
                f"{field}.name is {variable.name}; it must be there once only",
            )
        seen.add(variable.name)
        if variable.value_from:
            yield from _source(field, variable, variable.value_from)


def _source(field: str, variable: Variable, source: VariableSource) -> Iterator[Problem]:
    if variable.value is not None:
        yield Problem(
            "InvalidVariable",
            f"{field}.value",
            f"{field}.value must not be set beside {field}.valueFrom",
        )
    if (source.secret_key_ref is None) == (source.config_map_key_ref is None):
        yield Problem(
            "InvalidVariable",
            f"{field}.valueFrom",
            f"{field}.valueFrom must set exactly one of secretKeyRef, configMapKeyRef",
        )
    for name, reference in (
        ("secretKeyRef", source.secret_key_ref),
        ("configMapKeyRef", source.config_map_key_ref),
    ):
        if reference and (reference.key == "." or reference.key.startswith("..")):
            inner = f"{field}.valueFrom.{name}.key"
            yield Problem(
                "InvalidVariable",
                inner,
                f"{inner} must not be '.' nor start with '..': nothing can hold such a key",
            )


def _agreed(path: str, variables: Iterable[Variable]) -> Iterator[Problem]:
    for index, variable in enumerate(variables):
        if variable.name in AGREED_VARIABLES:
            field = f"{path}[{index}].name"
            yield Problem(
                "InvalidVariable",
                field,
                f"{field} must not be {variable.name}: both tiers must agree on it; set it in"
                " spec.engine.env",
            )


def _volumes(path: str, volumes: Iterable[PodVolume], own: Owned) -> Iterator[Problem]:
    seen: set[str] = set()
    for index, volume in enumerate(volumes):
        field = f"{path}[{index}]"
        name = f"{field}.name"
        if volume.name in own.volumes:
            yield Problem(
                "InvalidVolume",
                name,
                f"{name} must not be {volume.name}: the operator has a volume of that name",
            )
        if volume.name in seen:
            yield Problem(
                "InvalidVolume", name, f"{name} is {volume.name}; it must be there once only"
            )
        seen.add(volume.name)
        kinds = (
            volume.config_map, volume.secret, volume.persistent_volume_claim, volume.empty_dir,
        )  # fmt: skip
        if sum(kind is not None for kind in kinds) != 1:
            yield Problem(
                "InvalidVolume",
                field,
                f"{field} must set exactly one of configMap, secret, persistentVolumeClaim,"
                " emptyDir",
            )
        size = volume.empty_dir.size_limit if volume.empty_dir else None
        if size is not None and not (0 < quantity(size) <= MAX and is_whole(quantity(size))):
            inner = f"{field}.emptyDir.sizeLimit"
            yield Problem(
                "InvalidVolume",
                inner,
                f"{inner} is {size}; it must be whole bytes, above zero and below 8Ei",
            )


def _mounts(path: str, tier: TierSpec, own: Owned) -> Iterator[Problem]:
    names = {volume.name for volume in tier.volumes}
    seen: set[str] = set()
    for index, mount in enumerate(tier.volume_mounts):
        field = f"{path}.volumeMounts[{index}]"
        if mount.name not in names:
            yield Problem(
                "InvalidVolume",
                f"{field}.name",
                f"{field}.name is {mount.name}; it must be the name of one of {path}.volumes",
            )
        why = folder_taken(mount.mount_path, own) or (
            "is there twice" if mount.mount_path in seen else None
        )
        seen.add(mount.mount_path)
        if why:
            inner = f"{field}.mountPath"
            yield Problem("InvalidVolume", inner, f"{inner} is {mount.mount_path}; it {why}")


def folder_taken(folder: str, own: Owned) -> str | None:
    """Why nothing may be mounted at `folder`; None where it may."""
    for theirs in sorted(own.folders):
        if _within(folder, theirs) or _within(theirs, folder):
            return f"must neither be within {theirs} nor hold it: that is the operator's"
    if folder in _SYSTEM or any(_within(folder, kernel) for kernel in _KERNEL):
        return "must not hide a folder of the system; mount below /mnt or /data"
    return None


def _within(folder: str, other: str) -> bool:
    return folder == other or folder.startswith(f"{other.rstrip('/')}/")
