"""`podOverrides`: a patch must not reach what the operator owns, nor the node below the pod."""

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from pd_operator.api.deployment import PDDeployment
from pd_operator.api.overrides import PodOverrides
from pd_operator.api.tier import TierSpec
from pd_operator.build.hashing import canonical_json
from pd_operator.build.parts import Tier, operator_parts
from pd_operator.build.port_plan import host_ports
from pd_operator.checks.names import is_qualified_name
from pd_operator.checks.pod_types import type_problems
from pd_operator.checks.pods import Owned, folder_taken, owned
from pd_operator.checks.problem import Problem
from pd_shared import labels

MAX_BYTES: Final = 32 * 1024

ALLOWED: Final = frozenset(
    {
        "affinity", "containers", "dnsConfig", "dnsPolicy", "hostAliases", "imagePullSecrets",
        "initContainers", "nodeSelector", "preemptionPolicy", "priorityClassName",
        "readinessGates", "resourceClaims", "runtimeClassName", "schedulerName",
        "schedulingGates", "securityContext", "tolerations", "topologySpreadConstraints",
        "volumes",
    }
)  # fmt: skip
"""Fields of a pod's spec that an override may set."""
ENGINE: Final = frozenset(
    {
        "env", "imagePullPolicy", "name", "resources", "securityContext", "terminationMessagePath",
        "terminationMessagePolicy", "volumeDevices", "volumeMounts",
    }
)  # fmt: skip
"""Fields of the engine container that an override may set."""
_INSTEAD: Final = {
    "args": "; use args of the tier",
    "image": "; use image of the tier",
}
_RESERVED: Final = (labels.GROUP, "kubernetes.io", "k8s.io")
_NAME: Final = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_VALUE: Final = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?")

Found = Iterator[tuple[str, str]]
"""Path below podOverrides, and what is wrong there."""


def override_problems(deployment: PDDeployment) -> Iterator[Problem]:
    """What of both tiers' overrides is refused."""
    for name, component, tier in (
        ("prefill", labels.PREFILLER, deployment.spec.prefill),
        ("decode", labels.DECODER, deployment.spec.decode),
    ):
        if tier.pod_overrides is None:
            continue
        for path, message in _tier(deployment, component, tier, tier.pod_overrides):
            field = f"spec.{name}.podOverrides{path}"
            yield Problem("OverrideNotAllowed", field, f"{field} {message}")


def _tier(deployment: PDDeployment, component: str, tier: TierSpec, patch: PodOverrides) -> Found:
    of = Tier(deployment, component, "cluster.local")
    parts = operator_parts(of)
    yield from _metadata(patch, {key for part in parts for key in part.annotations})
    if len(canonical_json(patch.spec).encode()) > MAX_BYTES:
        yield ".spec", f"must have at most {MAX_BYTES} bytes as JSON"
        return
    strange = list(_strange(".spec", patch.spec)) or list(type_problems(".spec", patch.spec))
    yield from strange
    if strange:
        return
    for key in patch.spec.keys() - ALLOWED:
        yield f".spec.{key}", f"must not be set; allowed are {', '.join(sorted(ALLOWED))}"
    own = owned(deployment, component)
    # Containers of a pod share its network: ports that are not declared are taken all the same.
    ports = {number for part in parts for _, number in part.ports}
    ports |= {port.number for port in host_ports(of)}
    mine = {str(c["name"]) for part in parts for c in part.init_containers}
    for kind in ("initContainers", "containers"):
        for path, container in _elements(f".spec.{kind}", patch.spec.get(kind, [])):
            if kind == "containers" and container["name"] == "engine":
                yield from _engine(path, container, own)
            elif kind == "initContainers" and container["name"] in mine:
                yield path, "must not change a container of the operator"
            else:
                yield from _other(path, container, ports)
    taken = own.volumes | {volume.name for volume in tier.volumes}
    for path, volume in _elements(".spec.volumes", patch.spec.get("volumes", [])):
        if volume["name"] in taken:
            yield f"{path}.name", f"must not be {volume['name']}: there is a volume of that name"
        if "hostPath" in volume:
            yield f"{path}.hostPath", "must not be set: pods must not reach the node's files"


def _metadata(patch: PodOverrides, annotations: set[str]) -> Found:
    for kind, given in (
        ("labels", patch.metadata.labels),
        ("annotations", patch.metadata.annotations),
    ):
        for key, value in given.items():
            path = f".metadata.{kind}[{key}]"
            domain = key.rpartition("/")[0]
            if not is_qualified_name(key):
                yield path, "must be named name or domain/name, the name at most 63 characters"
            elif domain == labels.GROUP or (kind == "annotations" and key in annotations):
                yield path, "must not be set: it is the operator's"
            elif kind == "labels":
                if any(domain == one or domain.endswith(f".{one}") for one in _RESERVED):
                    yield path, "must not be set: it is the operator's or Kubernetes' own"
                elif not _VALUE.fullmatch(value):
                    yield path, "must be a label's value: letters, digits, '-', '_' and '.'"


def _strange(path: str, value: Any) -> Found:
    """Directives, nulls and elements without a name, at any depth."""
    if value is None:
        yield path, "must not be null: an override adds or changes, it removes nothing"
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            if key.startswith("$"):
                yield f"{path}.{key}", "must not be set: directives of patches are not known here"
            else:
                yield from _strange(f"{path}.{key}", inner)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from _strange(f"{path}[{index}]", inner)
    last = path.rpartition(".")[2]
    if last in ("containers", "initContainers", "volumes") and path.count(".") == 2:
        if not isinstance(value, list):
            yield path, "must be a list"
            return
        names = [one.get("name") if isinstance(one, Mapping) else None for one in value]
        for index, name in enumerate(names):
            if not isinstance(name, str) or not _NAME.fullmatch(name):
                yield f"{path}[{index}].name", "must be a name: a-z, 0-9 and -, at most 63"
            elif name in names[:index]:
                yield f"{path}[{index}].name", f"is {name}; it must be there once only"


def _elements(path: str, value: list[Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for index, element in enumerate(value):
        yield f"{path}[{index}]", element


def _engine(path: str, container: Mapping[str, Any], own: Owned) -> Found:
    for key in container.keys() - ENGINE:
        yield f"{path}.{key}", f"must not be set: the operator sets it{_INSTEAD.get(key, '')}"
    for key in _map(container.get("resources")).keys() - {"claims"}:
        yield f"{path}.resources.{key}", "must not be set; use resources of the tier"
    for index, variable in _maps(container.get("env")):
        if variable.get("name") in own.variables:
            yield (
                f"{path}.env[{index}].name",
                f"must not be {variable['name']}: the operator sets it",
            )
    for index, mount in _maps(container.get("volumeMounts")):
        folder = mount.get("mountPath")
        why = folder_taken(folder, own) if isinstance(folder, str) and folder else None
        if why:
            yield f"{path}.volumeMounts[{index}].mountPath", why
    yield from _privileged(path, container)


def _other(path: str, container: Mapping[str, Any], ports: set[int]) -> Found:
    if not container.get("image"):
        yield f"{path}.image", "must be set: the operator has no container of that name"
    for index, port in _maps(container.get("ports")):
        if port.get("containerPort") in ports:
            yield (
                f"{path}.ports[{index}].containerPort",
                f"must not be {port['containerPort']}: the engine listens there",
            )
    yield from _privileged(path, container)


def _privileged(path: str, container: Mapping[str, Any]) -> Found:
    context = _map(container.get("securityContext"))
    for key in ("privileged", "allowPrivilegeEscalation"):
        if context.get(key):
            yield f"{path}.securityContext.{key}", "must not be true"


def _map(value: Any) -> Mapping[str, Any]:
    # Of what type a field is, the API server knows.
    return value if isinstance(value, Mapping) else {}


def _maps(value: Any) -> Iterator[tuple[int, Mapping[str, Any]]]:
    for index, element in enumerate(value if isinstance(value, list) else []):
        yield index, _map(element)
