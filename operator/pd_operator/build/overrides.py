"""Strategic merge of a patch into a pod's spec, as Kubernetes does it; pure."""

from collections.abc import Mapping
from typing import Any, Final

MERGE_KEYS: Final[Mapping[str, str]] = {
    "containers": "name",
    "env": "name",
    "hostAliases": "ip",
    "imagePullSecrets": "name",
    "initContainers": "name",
    "ports": "containerPort",
    "resourceClaims": "name",
    "schedulingGates": "name",
    "topologySpreadConstraints": "topologyKey",
    "volumeDevices": "devicePath",
    "volumeMounts": "mountPath",
    "volumes": "name",
}
"""Lists whose elements are merged by this key (`patchMergeKey` of the Kubernetes API); all other
lists, such as `tolerations`, are replaced."""


def overridden(base: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    """`base` with `patch` merged into it; neither is changed."""
    result = dict(base)
    for key, value in patch.items():
        before = result.get(key)
        if isinstance(before, Mapping) and isinstance(value, Mapping):
            result[key] = overridden(before, value)
        elif isinstance(before, list) and isinstance(value, list) and key in MERGE_KEYS:
            result[key] = _merged(before, value, MERGE_KEYS[key])
        else:
            result[key] = value
    return result


def _merged(before: list[Any], patch: list[Any], key: str) -> list[Any]:
    result = list(before)
    for element in patch:
        name = element.get(key) if isinstance(element, Mapping) else None
        index = next(
            (
                i
                for i, known in enumerate(result)
                if name is not None and isinstance(known, Mapping) and known.get(key) == name
            ),
            None,
        )
        if index is None:
            result.append(element)
        else:
            result[index] = overridden(result[index], element)
    return result
