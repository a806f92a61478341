"""`nodeSelector` and `tolerations` of the tiers and of the store's pool."""

from collections.abc import Iterator
from typing import Final

from pd_operator.api.autoscaling import Mode
from pd_operator.api.deployment import PDDeployment
from pd_operator.api.placement import GangScheduler
from pd_operator.api.store import PoolSpec
from pd_operator.api.tier import TierSpec, Toleration
from pd_operator.checks.names import is_qualified_name
from pd_operator.checks.problem import Problem

_KEY: Final = "must be a label key: name or domain/name, the name at most 63 characters"


def placement_problems(deployment: PDDeployment) -> Iterator[Problem]:
    """Keys and combinations that the API server would refuse in a pod, and gangs."""
    spec = deployment.spec
    yield from _gang(deployment)
    places: list[tuple[str, TierSpec | PoolSpec]] = [
        ("spec.prefill", spec.prefill),
        ("spec.decode", spec.decode),
    ]
    if spec.mooncake.store.pool:
        places.append(("spec.mooncake.store.pool", spec.mooncake.store.pool))
    for tier, placed in places:
        for key in placed.node_selector:
            if not is_qualified_name(key):
                yield Problem(
                    "InvalidNodeSelector",
                    f"{tier}.nodeSelector",
                    f"{tier}.nodeSelector has the key {key!r}; it {_KEY}",
                )
        for index, toleration in enumerate(placed.tolerations):
            field = f"{tier}.tolerations[{index}]"
            for part, message in _toleration(toleration):
                yield Problem("InvalidToleration", f"{field}.{part}", f"{field}.{part} {message}")


def _gang(deployment: PDDeployment) -> Iterator[Problem]:
    gang = deployment.spec.placement.gang
    if gang is None:
        return
    plugin = gang.scheduler is GangScheduler.COSCHEDULING
    if plugin and gang.queue is not None:
        yield Problem(
            "InvalidGang",
            "spec.placement.gang.queue",
            "spec.placement.gang.queue is not allowed where spec.placement.gang.scheduler is"
            " Coscheduling: it has no queues",
        )
    if not plugin and gang.scheduler_name is not None:
        yield Problem(
            "InvalidGang",
            "spec.placement.gang.schedulerName",
            "spec.placement.gang.schedulerName is only allowed where spec.placement.gang.scheduler"
            " is Coscheduling",
        )
    if gang.scheduler is not GangScheduler.KUEUE:
        return
    if not gang.queue:
        yield Problem(
            "InvalidGang",
            "spec.placement.gang.queue",
            "spec.placement.gang.queue must name a LocalQueue where spec.placement.gang.scheduler"
            " is Kueue",
        )
    if deployment.spec.autoscaling.mode is Mode.AUTO:
        yield Problem(
            "InvalidGang",
            "spec.autoscaling.mode",
            "spec.autoscaling.mode must not be Auto where spec.placement.gang.scheduler is Kueue:"
            " it admits a StatefulSet as large as it is and refuses another size",
        )


def _toleration(toleration: Toleration) -> Iterator[tuple[str, str]]:
    exists = toleration.operator == "Exists"
    if toleration.key and not is_qualified_name(toleration.key):
        yield "key", f"is {toleration.key!r}; it {_KEY}"
    if not toleration.key and not exists:
        yield "operator", "must be Exists where key is empty"
    if exists and toleration.value:
        yield "value", "must be empty where operator is Exists"
    if toleration.toleration_seconds is not None and toleration.effect != "NoExecute":
        yield "tolerationSeconds", "is only allowed where effect is NoExecute"
