"""`spec.kvTransfer`: which connector goes with what."""

from collections.abc import Iterator

from pd_operator.api.deployment import PDDeployment
from pd_operator.api.kv_transfer import (
    ABORT_SECONDS,
    DIRECT,
    MAY_USE_STORE,
    NEED_STORE,
    Connector,
)
from pd_operator.api.values import duration_seconds
from pd_operator.checks.problem import Problem

_FIELD = "spec.kvTransfer"
_NOT_WITH = "FieldNotUsed"


def kv_transfer_problems(deployment: PDDeployment) -> Iterator[Problem]:
    """What the connector cannot do, and fields that would have no effect."""
    spec = deployment.spec
    kv = spec.kv_transfer
    if kv.connector not in DIRECT:
        for name, given in (("abortTimeout", kv.abort_timeout), ("workers", kv.workers)):
            if given is not None:
                yield Problem(
                    _NOT_WITH,
                    f"{_FIELD}.{name}",
                    f"{_FIELD}.{name} is only allowed with connector Mooncake, Multi or Nixl;"
                    " remove it",
                )
    if kv.abort_timeout is not None:
        seconds = duration_seconds(kv.abort_timeout)
        low, high = ABORT_SECONDS
        if not low <= seconds <= high or seconds != int(seconds):
            yield Problem(
                "InvalidAbortTimeout",
                f"{_FIELD}.abortTimeout",
                f"{_FIELD}.abortTimeout is {kv.abort_timeout}; it must be whole seconds from"
                f" {low}s to {high // 3600}h",
            )
    yield from _store(deployment)
    yield from _lmcache(deployment)


def _store(deployment: PDDeployment) -> Iterator[Problem]:
    enabled, connector = (
        deployment.spec.mooncake.store.enabled,
        deployment.spec.kv_transfer.connector,
    )
    field = "spec.mooncake.store.enabled"
    if enabled is False and connector in NEED_STORE:
        yield Problem(
            "ConnectorNeedsStore",
            field,
            f"{field} must be true or absent with {_FIELD}.connector {connector}: its KV lies in"
            " the store",
        )
    if enabled and connector not in MAY_USE_STORE:
        yield Problem(
            _NOT_WITH,
            field,
            f"{field} must be false or absent with {_FIELD}.connector {connector}, which does not"
            " use the store; Mooncake, MooncakeStore, LMCache and Multi do",
        )


def _lmcache(deployment: PDDeployment) -> Iterator[Problem]:
    lmcache, connector = deployment.spec.lmcache, deployment.spec.kv_transfer.connector
    if lmcache is None:
        return
    if connector not in (Connector.LMCACHE, Connector.LMCACHE_MP):
        yield Problem(
            _NOT_WITH,
            "spec.lmcache",
            f"spec.lmcache is only allowed with {_FIELD}.connector LMCache or LMCacheMP; remove it",
        )
        return
    server = connector is Connector.LMCACHE_MP
    for name, given, allowed in (
        ("prefill", lmcache.prefill, not server),
        ("decode", lmcache.decode, not server),
        ("server", lmcache.server, server),
    ):
        if given is not None and not allowed:
            yield Problem(
                _NOT_WITH,
                f"spec.lmcache.{name}",
                f"spec.lmcache.{name} is not allowed with {_FIELD}.connector {connector}; with it"
                f" there is {'only server' if server else 'prefill and decode'}",
            )
