"""What the API server demands of a child beyond its schema, as far as a user's values reach it."""

import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

from pd_operator.build import Manifest

_LABEL = re.compile(r"([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?")
_DNS_LABEL = re.compile(r"[a-z]([-a-z0-9]{0,61}[a-z0-9])?")
_DOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*")
_STATEFUL_SET_SUFFIX = 11
"""A StatefulSet's controller-revision label is its name and this many characters more."""

FACTORS = {
    suffix: Decimal(base) ** power
    for base, suffixes in (
        (1000, ["", "k", "M", "G", "T", "P", "E"]),
        (1024, ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"]),
    )
    for power, suffix in enumerate(suffixes)
} | {"m": Decimal("1e-3"), "u": Decimal("1e-6"), "n": Decimal("1e-9")}
"""What Kubernetes' suffixes of quantities stand for."""


def number(text: str) -> Decimal:
    """The number of a quantity as the API server writes it; ValueError for anything else."""
    match = re.fullmatch("([0-9]+)([A-Za-z]*)", text)
    if match is None or match[2] not in FACTORS:
        raise ValueError(text)
    return int(match[1]) * FACTORS[match[2]]


def complaints(manifest: Manifest) -> list[str]:
    """What is wrong with a manifest; empty where the API server would take it."""
    return [text for text in _complaints(manifest) if text]


def _complaints(manifest: Manifest) -> Iterator[str]:
    metadata = manifest["metadata"]
    room = _STATEFUL_SET_SUFFIX if manifest["kind"] == "StatefulSet" else 0
    if not _DNS_LABEL.fullmatch(metadata["name"]) or len(metadata["name"]) + room > 63:
        yield f"name {metadata['name']!r}"
    yield from _labels(metadata)
    template = manifest.get("spec", {}).get("template")
    if template:
        yield from _labels(template["metadata"])
        # A Job has none of its own.
        selector = manifest["spec"].get("selector", {}).get("matchLabels", {}).items()
        if not selector <= template["metadata"]["labels"].items():
            yield "the selector does not match the template"
        yield from _pod(template["spec"])


def _labels(metadata: Manifest) -> Iterator[str]:
    for key, value in metadata["labels"].items():
        if not qualified(key) or not _LABEL.fullmatch(value):
            yield f"label {key}={value}"
    for key in metadata.get("annotations", {}):
        if not qualified(key):
            yield f"annotation {key}"


def _pod(pod: Manifest) -> Iterator[str]:
    volumes = [volume["name"] for volume in pod["volumes"]]
    if len(set(volumes)) != len(volumes):
        yield "two volumes of one name"
    for container in [*pod.get("initContainers", []), *pod["containers"]]:
        mounts = container.get("volumeMounts", [])
        if not {mount["name"] for mount in mounts} <= set(volumes):
            yield "a mount without its volume"
        if len({mount["mountPath"] for mount in mounts}) != len(mounts):
            yield "two mounts at one path"
        variables = [variable["name"] for variable in container.get("env", [])]
        if len(set(variables)) != len(variables):
            yield "a variable is set twice"
        for variable in container.get("env", []):
            secret = variable.get("valueFrom", {}).get("secretKeyRef")
            if secret and (secret["key"] == "." or secret["key"].startswith("..")):
                yield f"secret key {secret['key']!r}"
        yield from _resources(container.get("resources", {}))
    for key, value in pod.get("nodeSelector", {}).items():
        if not qualified(key) or not _LABEL.fullmatch(value):
            yield f"node selector {key}={value}"
    for toleration in pod.get("tolerations", []):
        yield from _toleration(toleration)


def _resources(resources: dict[str, Any]) -> Iterator[str]:
    requests, limits = resources.get("requests", {}), resources.get("limits", {})
    names = {*requests, *limits}
    for name in names:
        plain = name in ("cpu", "memory", "ephemeral-storage")
        huge = re.fullmatch(r"hugepages-[0-9]+(Ki|Mi|Gi)", name)
        if not (
            plain or huge or ("/" in name and qualified(name) and qualified(f"requests.{name}"))
        ):
            yield f"resource {name}"
        given = [number(values[name]) for values in (requests, limits) if name in values]
        if plain and len(given) == 2 and given[0] > given[1]:
            yield f"request of {name} above its limit"
        if not plain and (name not in limits or len(set(given)) != 1 or given[0] % 1):
            yield f"{name} must be whole, and its request equal to its limit"
        if huge and not names & {"cpu", "memory"}:
            yield "huge pages without cpu or memory"


def _toleration(toleration: Manifest) -> Iterator[str]:
    key, operator = toleration.get("key"), toleration.get("operator", "Equal")
    if key and not qualified(key):
        yield f"toleration key {key!r}"
    if not key and operator != "Exists":
        yield "a toleration without key must be Exists"
    if operator == "Exists" and toleration.get("value"):
        yield "Exists with a value"
    if "tolerationSeconds" in toleration and toleration.get("effect") != "NoExecute":
        yield "tolerationSeconds without NoExecute"


def qualified(key: str) -> bool:
    """Whether `key` is a qualified name as Kubernetes defines it."""
    domain, slash, name = key.rpartition("/")
    if slash and (len(domain) > 253 or not _DOMAIN.fullmatch(domain)):
        return False
    return bool(name) and bool(_LABEL.fullmatch(name))
