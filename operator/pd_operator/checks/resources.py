"""`resources` of the tiers: what the API server would refuse in a pod, and the operator's own."""

import re
from collections.abc import Iterator
from typing import Final

from pd_operator.api.deployment import PDDeployment
from pd_operator.api.engine import Device
from pd_operator.api.kv_transfer import Protocol
from pd_operator.api.rdma import RDMASpec
from pd_operator.api.tier import Resources
from pd_operator.api.values import quantity
from pd_operator.build.parts.parallelism import GPU
from pd_operator.checks.names import is_qualified_name
from pd_operator.checks.problem import Problem
from pd_operator.checks.sizes import MAX, is_whole

_PLAIN: Final = frozenset({"cpu", "memory", "ephemeral-storage"})
_HUGE_PAGES: Final = re.compile(r"hugepages-[0-9]+(Ki|Mi|Gi)")


def resource_problems(deployment: PDDeployment) -> Iterator[Problem]:
    """Names and values of both tiers' resources, and the RDMA resource's name."""
    spec = deployment.spec
    if spec.rdma:
        field = "spec.rdma.resources" if spec.rdma.resources else "spec.rdma.resource"
        for name in spec.rdma.requested:
            if _is_device(name) and name != GPU:
                continue
            yield Problem(
                "InvalidResource",
                field,
                f"{field} has {name!r}; it must name a device plugin's resource as"
                " domain/name, like rdma/hca_shared_devices_a",
            )
    for tier, resources in (
        ("spec.prefill.resources", spec.prefill.resources),
        ("spec.decode.resources", spec.decode.resources),
    ):
        for kind, given in (("requests", resources.requests), ("limits", resources.limits)):
            for name, value in given.items():
                yield from _value(deployment, f"{tier}.{kind}[{name}]", name, value)
        yield from _pair(tier, resources)


def _value(deployment: PDDeployment, field: str, name: str, value: str) -> Iterator[Problem]:
    set_by = _set_by(deployment, name)
    if set_by:
        yield Problem("ResourceSetByOperator", field, f"{field} must not be set: {set_by}")
    elif not (name in _PLAIN or _HUGE_PAGES.fullmatch(name) or _is_device(name)):
        yield Problem(
            "InvalidResource",
            field,
            f"{field} names no resource; allowed are cpu, memory, ephemeral-storage,"
            " hugepages-SIZE and a device plugin's domain/name",
        )
    elif quantity(value) > MAX:
        yield Problem(
            "InvalidResource", field, f"{field} is {value}; it must be at most {MAX}, below 8Ei"
        )
    elif name not in _PLAIN and not is_whole(quantity(value)):
        yield Problem("InvalidResource", field, f"{field} is {value}; it must be a whole number")


def _set_by(deployment: PDDeployment, name: str) -> str | None:
    spec = deployment.spec
    if name == GPU:
        if spec.engine.device is Device.CUDA:
            return "the operator asks for as many GPUs as parallelism says"
        return "spec.engine.device is cpu; set it to cuda for GPUs"
    rdma = (spec.rdma or RDMASpec()).requested
    if spec.kv_transfer.protocol is Protocol.RDMA and name in rdma:
        return "the operator asks for as many of them as spec.rdma says"
    if spec.kv_transfer.protocol is not Protocol.RDMA and name.startswith("rdma/"):
        return "spec.kvTransfer.protocol is tcp; set it to rdma for RDMA devices"
    return None


def _pair(tier: str, resources: Resources) -> Iterator[Problem]:
    requests, limits = resources.requests, resources.limits
    for name, request in requests.items():
        limit = limits.get(name)
        if name in _PLAIN:
            if limit is not None and quantity(request) > quantity(limit):
                yield Problem(
                    "RequestAboveLimit",
                    f"{tier}.requests[{name}]",
                    f"{tier}.requests[{name}] is {request}; it must be at most the limit, {limit}",
                )
        elif limit is None or quantity(request) != quantity(limit):
            yield Problem(
                "RequestDiffersFromLimit",
                f"{tier}.requests[{name}]",
                f"{tier}.requests[{name}] must equal {tier}.limits[{name}]: devices and huge pages"
                " cannot be shared; set the limit alone",
            )
    given = {*requests, *limits}
    if any(_HUGE_PAGES.fullmatch(name) for name in given) and not given & {"cpu", "memory"}:
        yield Problem(
            "InvalidResource",
            tier,
            f"{tier} asks for huge pages; it must ask for cpu or memory as well",
        )


def _is_device(name: str) -> bool:
    return (
        "/" in name
        and "kubernetes.io/" not in name
        and not name.startswith("requests.")
        # A quota's name for it is longer by "requests." and must be valid too.
        and is_qualified_name(f"requests.{name}")
    )
