"""The pod of a tier: one vLLM engine with its probes, volumes, resources and placement."""

from collections.abc import Iterator
from typing import Final

from pd_operator.build import names
from pd_operator.build.manifest import Manifest
from pd_operator.build.parts import Part, Tier
from pd_operator.build.parts.server import SHUTDOWN_SECONDS
from pd_operator.build.port_plan import host_ports
from pd_operator.build.quantities import canonical
from pd_operator.build.security import engine_container, engine_pod

PRE_STOP_SECONDS: Final = 5
"""In which everybody learns that the pod goes, while it still takes requests."""

_GRACE_SECONDS: Final = PRE_STOP_SECONDS + SHUTDOWN_SECONDS + 35
_STARTUP_PERIOD_SECONDS: Final = 2
_STARTUP_SECONDS: Final = 3600
"""Weights of hundreds of GB take long to download and load; a crash is seen at once anyway."""


def pod_spec(tier: Tier, part: Part) -> Manifest:
    """The pod spec of a tier, from all its parts as one."""
    spec: Manifest = {
        "serviceAccountName": names.engine(tier.name),
        "automountServiceAccountToken": False,
        # A Service named vllm would otherwise set VLLM_PORT, which stops the engine.
        "enableServiceLinks": False,
        "securityContext": engine_pod(image_user=part.image_user),
        "terminationGracePeriodSeconds": _GRACE_SECONDS,
        "affinity": {
            kind: {name: list(terms) for name, terms in lists.items()}
            for kind, lists in sorted(part.affinity.items())
        },
        "containers": [_container(tier, part)],
        "volumes": list(part.volumes),
        **part.pod,
    }
    if part.init_containers:
        spec["initContainers"] = list(part.init_containers)
    return spec


def resources(tier: Tier, part: Part) -> Manifest:
    """The engine container's resources: the user's, and the devices that the operator adds."""
    given = tier.spec.resources
    added = {name: str(count) for name, count in part.devices.items()}
    result = {
        kind: {name: canonical(value) for name, value in sorted(values.items())} | added
        for kind, values in (("requests", given.requests), ("limits", given.limits))
    }
    return {kind: values for kind, values in result.items() if values}


def environment(part: Part) -> list[Manifest]:
    """The engine container's environment: by name, the user's own last."""
    return [
        *({"name": name, "valueFrom": source} for name, source in part.first_env.items()),
        *({"name": name, "value": value} for name, value in sorted(part.env.items())),
        *({"name": name, "valueFrom": source} for name, source in sorted(part.env_from.items())),
        *part.user_env,
    ]


def _container(tier: Tier, part: Part) -> Manifest:
    ready, alive = _probed(tier)
    return {
        "name": "engine",
        "args": list(part.args),
        "env": environment(part),
        "ports": list(_ports(tier, part)),
        "startupProbe": _probe(
            ready, _STARTUP_PERIOD_SECONDS, _STARTUP_SECONDS // _STARTUP_PERIOD_SECONDS
        ),
        "readinessProbe": _probe(ready, 5, 3),
        # /health fails only when the engine is dead; a busy server may answer late.
        "livenessProbe": _probe(alive, 10, 6),
        "lifecycle": {"preStop": {"sleep": {"seconds": PRE_STOP_SECONDS}}},
        "resources": resources(tier, part),
        "securityContext": engine_container(part.capabilities, image_user=part.image_user),
        "volumeMounts": list(part.mounts),
        **part.container,
    }


def _ports(tier: Tier, part: Part) -> Iterator[Manifest]:
    on_host = bool(part.pod.get("hostNetwork"))
    known = {number for _, number in part.ports}
    planned = ((port.name, port.number) for port in host_ports(tier)) if on_host else ()
    for name, number in (*part.ports, *(port for port in planned if port[1] not in known)):
        # On the node's network the API server would add it: it says what the scheduler must keep
        # apart.
        host = {"hostPort": number} if on_host else {}
        yield {"name": name, "containerPort": number, **host, "protocol": "TCP"}


def _probed(tier: Tier) -> tuple[Manifest, Manifest]:
    """What says that the engine is ready, and that it is alive."""
    if tier.spec.parallelism.grouped:
        # The leader's vLLM alone has a server; launchers answer for the group in every pod.
        return {"path": "/ready", "port": "group"}, {"path": "/live", "port": "group"}
    health = {"path": "/health", "port": "http"}
    return health, health


def _probe(get: Manifest, period_seconds: int, failures: int) -> Manifest:
    return {
        "httpGet": dict(get),
        "periodSeconds": period_seconds,
        "timeoutSeconds": 10,
        "failureThreshold": failures,
    }
