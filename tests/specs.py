"""PDDeployments for unit tests: a smallest valid one, with changes."""

import copy
from typing import Any, Final

from pd_operator.api.deployment import PDDeployment, parse
from pd_operator.build import Defaults, Manifest, desired
from pd_operator.build.engine_pod import environment, pod_spec
from pd_operator.build.parts import Part, Tier, tier_part

DEFAULTS: Final = Defaults(
    proxy_image="registry.example/proxy:1", mooncake_image="registry.example/mooncake:1"
)

CUDA: Final[dict[str, Any]] = {
    "model": {"id": "org/model"},
    "engine": {"image": "registry.example/vllm:1", "version": "0.33.0"},
}
CPU: Final[dict[str, Any]] = {
    "model": {"id": "tiny", "source": {"local": {"path": "/models/tiny"}}},
    "engine": {"image": "registry.example/vllm-cpu:1", "device": "cpu"},
    "kvTransfer": {"protocol": "tcp"},
}
STORE: Final = {"mooncake": {"store": {"enabled": True}}}


def merged(base: dict[str, Any], changes: dict[str, Any]) -> dict[str, Any]:
    """`base` with `changes` laid over it, maps merged key by key; None removes a key."""
    result = copy.deepcopy(base)
    for key, value in changes.items():
        if value is None:
            result.pop(key, None)
        elif isinstance(value, dict) and isinstance(result.get(key), dict):
            result[key] = merged(result[key], value)
        else:
            result[key] = copy.deepcopy(value)
    return result


def at(path: str, value: Any) -> dict[str, Any]:
    """`{"a": {"b": value}}` for the path `a.b`."""
    for key in reversed(path.split(".")):
        value = {key: value}
    assert isinstance(value, dict)
    return value


def deployment(
    spec: dict[str, Any], name: str = "tiny", namespace: str = "ns", uid: str = "uid-1"
) -> PDDeployment:
    """A deployment as read from the API server."""
    metadata = {"name": name, "namespace": namespace, "uid": uid, "generation": 1}
    return parse({"metadata": metadata, "spec": spec})


def children(of: PDDeployment) -> dict[tuple[str, str], Manifest]:
    """All children by kind and name."""
    built = desired(of, DEFAULTS)
    manifests = [*built.objects, *(tier.stateful_set for tier in built.tiers)]
    result = {(each["kind"], each["metadata"]["name"]): each for each in manifests}
    assert len(result) == len(manifests), "two children of one kind have the same name"
    return result


def tier(spec: dict[str, Any], component: str) -> Tier:
    """The tier of a deployment with this spec."""
    return Tier(deployment(spec), component, "cluster.local")


def part(spec: dict[str, Any], component: str) -> Part:
    """All that the operator adds to the engine pods of a tier."""
    return tier_part(tier(spec, component))


def engine_pod(spec: dict[str, Any], component: str) -> Manifest:
    """The pod spec of a tier."""
    of = tier(spec, component)
    return pod_spec(of, tier_part(of))


def variables(spec: dict[str, Any], component: str) -> dict[str, Any]:
    """The engine's environment: name to value or `valueFrom`."""
    found = environment(part(spec, component))
    return {each["name"]: each.get("value", each.get("valueFrom")) for each in found}
