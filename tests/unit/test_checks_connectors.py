"""Connectors, the store, its master and LMCache: what may not go together."""

from typing import Any

import pytest

from pd_operator.api.deployment import InvalidSpecError
from pd_operator.validate import Problem, problems
from tests.api.test_refused import changed
from tests.api.test_refused_connectors import CASES as REFUSED
from tests.specs import CPU, CUDA, at, deployment, merged

FIELD = "spec.kvTransfer"
LMCACHE = at("kvTransfer.connector", "LMCache")
MP = {"kvTransfer": {"connector": "LMCacheMP", "protocol": "tcp"}}
STORE = "spec.mooncake.store"


def found(*changes: dict[str, Any], base: dict[str, Any] = CUDA) -> tuple[Problem, ...]:
    spec = base
    for each in changes:
        spec = merged(spec, each)
    return problems(deployment(spec))


CASES: list[tuple[tuple[dict[str, Any], ...], str, str]] = [
    ((at("kvTransfer", {"connector": "Nixl", "symmetric": True}),), "FieldNotUsed",
     f"{FIELD}.symmetric"),
    ((at("kvTransfer", {"connector": "MooncakeStore", "workers": 1}),), "FieldNotUsed",
     f"{FIELD}.workers"),
    ((MP, at("kvTransfer.abortTimeout", "1m")), "FieldNotUsed", f"{FIELD}.abortTimeout"),
    ((at("kvTransfer.connector", "LMCacheMP"),), "InvalidProtocol", f"{FIELD}.protocol"),
    *(((at("kvTransfer.abortTimeout", bad),), "InvalidAbortTimeout", f"{FIELD}.abortTimeout")
      for bad in ("9s", "9999ms", "10500ms", "3601s", "2h")),
    ((LMCACHE, at("mooncake.store.enabled", False)), "ConnectorNeedsStore", f"{STORE}.enabled"),
    ((MP, at("mooncake.store.enabled", True)), "FieldNotUsed", f"{STORE}.enabled"),
    ((at("kvTransfer.connector", "Multi"), at("engine.version", "0.32.0")), "StoreNeedsVersion",
     "spec.engine.version"),
    ((at("mooncake.store.pool", {"replicas": 2}),), "FieldNotUsed", f"{STORE}.pool"),
    ((at("mooncake.master", {"port": 9003}),), "PortTaken", "spec.mooncake.master.port"),
    ((at("mooncake.master", {"port": 8081, "metadataPort": 8081}),), "PortTaken",
     "spec.mooncake.master.port"),
    ((at("lmcache.chunkSize", 256),), "FieldNotUsed", "spec.lmcache"),
    ((LMCACHE, at("lmcache.server", {})), "FieldNotUsed", "spec.lmcache.server"),
    ((MP, at("lmcache.prefill", {})), "FieldNotUsed", "spec.lmcache.prefill"),
    ((MP, at("lmcache.decode", {})), "FieldNotUsed", "spec.lmcache.decode"),
    ((LMCACHE, at("lmcache.prefill.localCpuSize", "500m")), "InvalidStoreSize",
     "spec.lmcache.prefill.localCpuSize"),
    ((MP, at("lmcache.server.memory", 0)), "InvalidStoreSize", "spec.lmcache.server.memory"),
    ((at("mooncake.store", {"enabled": True, "mode": "Standalone",
                            "pool": {"offload": {"size": "0"}}}),), "InvalidStoreSize",
     f"{STORE}.pool.offload.size"),
    ((at("mooncake.store", {"enabled": True, "mode": "Standalone",
                            "pool": {"nodeSelector": {"a" * 64: ""}}}),), "InvalidNodeSelector",
     f"{STORE}.pool.nodeSelector"),
    ((at("mooncake.store", {"enabled": True, "mode": "Standalone",
                            "pool": {"tolerations": [{"key": "a", "tolerationSeconds": 1}]}}),),
     "InvalidToleration", f"{STORE}.pool.tolerations[0].tolerationSeconds"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "reason", "field"), CASES)
def test_problem(changes: tuple[dict[str, Any], ...], reason: str, field: str) -> None:
    (problem,) = found(*changes)
    assert (problem.reason, problem.field) == (reason, field)
    assert field in problem.message


def test_lmcache_in_the_engines_needs_gpus() -> None:
    (problem,) = found(LMCACHE, base=CPU)
    assert (problem.reason, problem.field) == ("ConnectorNeedsGPU", f"{FIELD}.connector")


@pytest.mark.parametrize("given", ["10s", "10000ms", "60m", "1h"])
def test_abort_timeouts(given: str) -> None:
    assert found(at("kvTransfer.abortTimeout", given)) == ()


@pytest.mark.parametrize("connector", ["Mooncake", "Nixl", "MooncakeStore"])
def test_connectors_that_work_with_every_version(connector: str) -> None:
    assert found(at("kvTransfer.connector", connector), at("engine.version", "0.32.0")) == ()


def limit(memory: str) -> dict[str, Any]:
    return at("decode.resources.limits", {"memory": memory})


def test_lmcaches_memory_counts_for_each_rank() -> None:
    two = merged(LMCACHE, at("decode.parallelism.tensor", 2))
    sizes = at("lmcache.decode.localCpuSize", "10Gi")
    (problem,) = found(two, sizes, limit("30Gi"))
    assert problem.reason == "StoreNeedsMemory"
    assert "2 x (4Gi + 1Gi + 10Gi)" in problem.message
    assert found(two, sizes, limit("31Gi")) == ()


def test_a_standalone_stores_segments_are_not_in_the_engines() -> None:
    sizes = at("mooncake.store", {"enabled": True, "segmentSize": "100Gi", "mode": "Standalone"})
    assert found(sizes, limit("2Gi")) == ()
    (problem,) = found(sizes, limit("1Gi"))
    assert "1 x (1Gi)" in problem.message


@pytest.mark.parametrize("case", REFUSED, ids=lambda case: f"{case[0]}={case[1]}"[:60])
def test_what_the_api_server_refuses_is_refused_here_too(case: tuple[str, Any, Any]) -> None:
    path, value, _ = case
    manifest = changed(path, value)

    def refused() -> bool:
        try:
            return problems(deployment(manifest["spec"])) != ()
        except InvalidSpecError:
            return True

    assert refused()
