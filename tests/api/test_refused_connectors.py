"""What the API server refuses of connectors, the store, its master and LMCache."""

from typing import Any

import pytest

from tests.api.conftest import Submit
from tests.api.test_refused import DURATION, QUANTITY, VALID, changed

pytestmark = pytest.mark.cluster

KV = "spec.kvTransfer"
STORE = "spec.mooncake.store"
MASTER = "spec.mooncake.master"


def spec(**sections: Any) -> dict[str, Any]:
    result: dict[str, Any] = VALID["spec"] | sections
    return result


DIRECT = "is only allowed with connector Mooncake, Multi or Nixl"
ENABLED = "mooncake.store.enabled must be true (or absent)"
CASES: list[tuple[str, Any, tuple[str, ...]]] = [
    # Connector.
    (f"{KV}.connector", "nixl", (f"{KV}.connector", '"Nixl", "MooncakeStore", "LMCache"')),
    (KV, {"connector": "Nixl", "symmetric": True}, (KV, "symmetric is not allowed with connector")),
    (f"{KV}.symmetric", "both", (f"{KV}.symmetric", "must be of type boolean")),
    (f"{KV}.loadFailurePolicy", "Retry", (f"{KV}.loadFailurePolicy", '"Recompute", "Fail"')),
    (f"{KV}.abortTimeout", "1d", (f"{KV}.abortTimeout", DURATION)),
    (f"{KV}.abortTimeout", 30, (f"{KV}.abortTimeout", "must be of type string")),
    (KV, {"connector": "MooncakeStore", "abortTimeout": "1m"}, (KV, f"abortTimeout {DIRECT}")),
    (KV, {"connector": "LMCache", "workers": 2}, (KV, f"workers {DIRECT}")),
    (f"{KV}.workers", 0, (f"{KV}.workers", "greater than or equal to 1")),
    (f"{KV}.workers", 129, (f"{KV}.workers", "less than or equal to 128")),
    (KV, {"connector": "LMCacheMP"}, (KV, "protocol must be tcp with connector LMCacheMP")),
    (
        "spec",
        spec(
            engine={"image": "a", "device": "cpu"},
            kvTransfer={"connector": "LMCache", "protocol": "tcp"},
        ),
        ("connector LMCache is not allowed where engine.device is cpu",),
    ),
    # Store.
    (
        "spec",
        spec(kvTransfer={"connector": "Nixl"}, mooncake={"store": {"enabled": True}}),
        (ENABLED, "false (or absent) with Nixl and LMCacheMP"),
    ),
    (
        "spec",
        spec(kvTransfer={"connector": "MooncakeStore"}, mooncake={"store": {"enabled": False}}),
        (ENABLED,),
    ),
    (f"{STORE}.mode", "Shared", (f"{STORE}.mode", '"Embedded", "Standalone"')),
    (STORE, {"pool": {"replicas": 2}}, (STORE, "pool is only allowed with mode Standalone")),
    (f"{STORE}.pool.replicas", 0, (f"{STORE}.pool.replicas", "greater than or equal to 1")),
    (
        STORE,
        {"mode": "Standalone", "pool": {"nodeSelector": {"a b": "c"}}},
        (f"{STORE}.pool", "keys of nodeSelector must be names of labels"),
    ),
    (
        STORE,
        {"mode": "Standalone", "pool": {"offload": {}}},
        (f"{STORE}.pool.offload.size", "Required"),
    ),
    (
        STORE,
        {"mode": "Standalone", "pool": {"offload": {"size": "1 Ti"}}},
        (f"{STORE}.pool.offload.size", QUANTITY),
    ),
    (
        STORE,
        {"mode": "Standalone", "pool": {"offload": {"size": "1Ti", "path": "../x"}}},
        (f"{STORE}.pool.offload.path", "should match"),
    ),
    (f"{STORE}.leaseTTL", "0s", (f"{STORE}.leaseTTL", DURATION)),
    (f"{STORE}.softPinTTL", "long", (f"{STORE}.softPinTTL", DURATION)),
    (f"{STORE}.evictionHighWatermark", 0, (f"{STORE}.evictionHighWatermark", "equal to 1")),
    (f"{STORE}.evictionHighWatermark", 101, (f"{STORE}.evictionHighWatermark", "equal to 100")),
    (f"{STORE}.evictionRatio", 0.05, (f"{STORE}.evictionRatio", "must be of type integer")),
    (f"{STORE}.allocationStrategy", "cxl", (f"{STORE}.allocationStrategy", '"FreeRatioFirst"')),
    # Master.
    (f"{MASTER}.port", 80, (f"{MASTER}.port", "greater than or equal to 1024")),
    (f"{MASTER}.port", 8080, (MASTER, "port and metadataPort must differ")),
    (f"{MASTER}.metadataPort", 9003, (MASTER, "from 9003, the admin port")),
    (f"{MASTER}.ha", {}, (f"{MASTER}.ha.etcd", "Required")),
    (f"{MASTER}.ha", {"etcd": {"endpoints": []}}, ("endpoints", "at least 1 items")),
    (f"{MASTER}.ha", {"etcd": {"endpoints": ["http://a:2379"]}}, ("endpoints[0]", "should match")),
    (f"{MASTER}.ha", {"etcd": {"endpoints": ["a:1;b:1"]}}, ("endpoints[0]", "should match")),
    (
        f"{MASTER}.ha",
        {"etcd": {"endpoints": ["a:2379"]}, "replicas": 1},
        (f"{MASTER}.ha.replicas", "greater than or equal to 2"),
    ),
    # LMCache.
    ("spec.lmcache", {}, ("lmcache is only allowed with kvTransfer.connector LMCache",)),
    (
        "spec",
        spec(kvTransfer={"connector": "LMCache"}, lmcache={"server": {}}),
        ("lmcache is only allowed with", "LMCache (without server)"),
    ),
    (
        "spec",
        spec(
            kvTransfer={"connector": "LMCacheMP", "protocol": "tcp"},
            lmcache={"decode": {"localCpu": True}},
        ),
        ("lmcache is only allowed with", "LMCacheMP (without prefill and decode)"),
    ),
    ("spec.lmcache.chunkSize", 8, ("spec.lmcache.chunkSize", "greater than or equal to 16")),
    ("spec.lmcache.prefill.localCpuSize", "5 GB", ("localCpuSize", QUANTITY)),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]}={case[1]}"[:60])
def test_refused(submit: Submit, case: tuple[str, Any, tuple[str, ...]]) -> None:
    path, value, expected = case
    message = submit(changed(path, value))
    assert message, "accepted"
    assert [part for part in expected if part not in message] == [], message


@pytest.mark.parametrize("connector", ["Mooncake", "Nixl", "MooncakeStore", "LMCache", "Multi"])
def test_every_connector_is_accepted(submit: Submit, connector: str) -> None:
    assert submit(changed(f"{KV}.connector", connector)) == ""


def test_lmcache_server_is_accepted_over_tcp(submit: Submit) -> None:
    given = spec(
        kvTransfer={"connector": "LMCacheMP", "protocol": "tcp"},
        lmcache={"chunkSize": 128, "server": {"memory": "1Gi"}},
    )
    assert submit(changed("spec", given)) == ""
