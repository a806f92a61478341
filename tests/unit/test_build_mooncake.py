"""The Mooncake master and the engines' store configuration."""

import json
from typing import Any

import pytest

from pd_shared.labels import DECODER, PREFILLER
from tests.specs import CPU, CUDA, STORE, children, deployment, engine_pod, merged, variables


def store_config(spec: dict[str, Any]) -> dict[str, Any]:
    found = children(deployment(merged(spec, STORE)))
    data = found["ConfigMap", "tiny-engine"]["data"]["mooncake.json"]
    result: dict[str, Any] = json.loads(data)
    return result


def master(changes: dict[str, Any] | None = None) -> dict[str, Any]:
    spec = merged(merged(CUDA, STORE), changes or {})
    return children(deployment(spec))["Deployment", "tiny-mooncake"]


def test_store_configuration() -> None:
    assert store_config(CUDA) == {
        "mode": "embedded",
        "metadata_server": "P2PHANDSHAKE",
        "master_server_address": "tiny-mooncake.ns.svc.cluster.local:50051",
        "protocol": "rdma",
        "device_name": "",
        "global_segment_size": 4 * 2**30,
        "local_buffer_size": 2**30,
    }


@pytest.mark.parametrize(
    ("spec", "key", "expected"),
    [
        (CPU, "protocol", "tcp"),
        (merged(CUDA, {"rdma": {"devices": ["mlx5_0", "mlx5_1"]}}), "device_name",
         "mlx5_0,mlx5_1"),
        (merged(CUDA, {"mooncake": {"store": {"segmentSize": "128Mi"}}}), "global_segment_size",
         128 * 2**20),
        (merged(CUDA, {"mooncake": {"store": {"localBufferSize": "2G"}}}), "local_buffer_size",
         2 * 10**9),
    ],
)  # fmt: skip
def test_store_configuration_follows_the_spec(
    spec: dict[str, Any], key: str, expected: Any
) -> None:
    assert store_config(spec)[key] == expected


def test_one_master_with_its_metadata_service() -> None:
    spec = master()["spec"]
    assert spec["replicas"] == 1
    assert spec["strategy"] == {"type": "Recreate"}
    (container,) = spec["template"]["spec"]["containers"]
    assert container["command"] == ["mooncake_master"]
    assert {
        "--rpc_port=50051", "--metrics_port=9003", "--enable_http_metadata_server=true",
        "--http_metadata_server_port=8080",
    } <= set(container["args"])  # fmt: skip
    assert container["readinessProbe"]["tcpSocket"] == {"port": "rpc"}
    assert container["livenessProbe"]["httpGet"] == {"path": "/health", "port": "admin"}


def test_image() -> None:
    def image(manifest: dict[str, Any]) -> Any:
        return manifest["spec"]["template"]["spec"]["containers"][0]["image"]

    assert image(master()) == "registry.example/mooncake:1"
    own = {"mooncake": {"image": "registry.example/own:1"}}
    assert image(master(own)) == "registry.example/own:1"


def test_no_service_leads_to_the_admin_port() -> None:
    for (kind, _), manifest in children(deployment(merged(CUDA, STORE))).items():
        if kind == "Service":
            targets = {port["targetPort"] for port in manifest["spec"]["ports"]}
            assert "admin" not in targets


# What the master is told.


def args(changes: dict[str, Any]) -> set[str]:
    (container,) = master(changes)["spec"]["template"]["spec"]["containers"]
    return set(container["args"])


@pytest.mark.parametrize(
    ("field", "value", "flag"),
    [
        ("leaseTTL", "30s", "--default_kv_lease_ttl=30000"),
        ("leaseTTL", "1500ms", "--default_kv_lease_ttl=1500"),
        ("softPinTTL", "1h", "--default_kv_soft_pin_ttl=3600000"),
        ("evictionHighWatermark", 85, "--eviction_high_watermark_ratio=0.85"),
        ("evictionRatio", 7, "--eviction_ratio=0.07"),
        ("allocationStrategy", "FreeRatioFirst", "--allocation_strategy=free_ratio_first"),
        ("allocationStrategy", "LocalFirst", "--allocation_strategy=local_first"),
    ],
)
def test_lease_eviction_and_allocation(field: str, value: Any, flag: str) -> None:
    assert args({"mooncake": {"store": {field: value}}}) - args({}) == {flag}


def test_ports() -> None:
    changes = {"mooncake": {"master": {"port": 50052, "metadataPort": 8081}}}
    assert {"--rpc_port=50052", "--http_metadata_server_port=8081"} <= args(changes)
    spec = merged(merged(CUDA, STORE), changes)
    service = children(deployment(spec))["Service", "tiny-mooncake"]["spec"]["ports"]
    assert [port["port"] for port in service] == [50052, 8081]
    assert store_config(spec)["master_server_address"].endswith(":50052")
    assert engine_pod(spec, DECODER)["initContainers"][-1]["command"][-1] == "50052"


HA = {"mooncake": {"master": {"ha": {"etcd": {"endpoints": ["a:2379", "b:2379"]}, "replicas": 3}}}}


def test_several_masters() -> None:
    found = master(HA)["spec"]
    assert found["replicas"] == 3
    # A leader's successor must be there before it goes.
    assert found["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    (container,) = found["template"]["spec"]["containers"]
    assert args(HA) - args({}) == {
        "--enable_ha=true", "--etcd_endpoints=a:2379;b:2379", "--cluster_id=ns-tiny",
        "--rpc_address=$(POD_IP)",
    }  # fmt: skip
    assert container["env"][0]["valueFrom"] == {"fieldRef": {"fieldPath": "status.podIP"}}
    # A standby's RPC port is closed.
    assert container["readinessProbe"]["httpGet"] == {"path": "/health", "port": "admin"}
    assert "tcpSocket" not in container["readinessProbe"]


def test_clients_of_several_masters() -> None:
    spec = merged(merged(CUDA, STORE), HA)
    assert store_config(spec)["master_server_address"] == "etcd://a:2379;b:2379"
    for component in (PREFILLER, DECODER):
        assert variables(spec, component)["MC_STORE_CLUSTER_ID"] == "ns-tiny"
        assert "MC_STORE_CLUSTER_ID" not in variables(merged(CUDA, STORE), component)


def test_budget_of_the_master() -> None:
    assert ("PodDisruptionBudget", "tiny-mooncake") in children(deployment(merged(CUDA, STORE)))
    assert ("PodDisruptionBudget", "tiny-mooncake") not in children(deployment(CUDA))


# The pool of mode Standalone.

ALONE = {"mooncake": {"store": {"mode": "Standalone", "segmentSize": "8Gi"}}}


def pool(changes: dict[str, Any], spec: dict[str, Any] = CUDA) -> dict[str, Any]:
    whole = merged(merged(merged(spec, STORE), ALONE), changes)
    result: dict[str, Any] = children(deployment(whole))["Deployment", "tiny-store"]["spec"]
    return result


def test_embedded_store_has_no_pool() -> None:
    assert ("Deployment", "tiny-store") not in children(deployment(merged(CUDA, STORE)))


def test_engines_of_a_standalone_store_give_no_memory() -> None:
    found = store_config(merged(CUDA, ALONE))
    assert (found["mode"], found["global_segment_size"]) == ("standalone-store", 0)
    assert "enable_offload" not in found


def test_pool() -> None:
    found = pool({"mooncake": {"store": {"pool": {"replicas": 3}}}}, CPU)
    assert found["replicas"] == 3
    pod = found["template"]["spec"]
    (container,) = pod["containers"]
    assert container["image"] == "registry.example/mooncake:1"
    assert container["command"] == ["mooncake_client"]
    assert {
        "--host=$(POD_IP)", f"--global_segment_size={8 * 2**30}", "--local_buffer_size=0",
        "--master_server_address=tiny-mooncake.ns.svc.cluster.local:50051",
        "--metadata_server=P2PHANDSHAKE", "--protocol=tcp",
    } <= set(container["args"])  # fmt: skip
    assert container["resources"]["limits"] == {"memory": str(9 * 2**30)}
    assert {"name": "MC_FORCE_TCP", "value": "1"} in container["env"]
    (wait,) = pod["initContainers"]
    assert wait["image"] == "registry.example/mooncake:1"
    assert pod["securityContext"]["runAsNonRoot"]


def test_pool_over_rdma() -> None:
    (container,) = pool({"rdma": {"devices": ["mlx5_0"], "count": 2}})["template"]["spec"][
        "containers"
    ]
    assert {"--protocol=rdma", "--device_names=mlx5_0"} <= set(container["args"])
    assert container["resources"]["limits"]["rdma/hca_shared_devices_a"] == "2"
    assert container["securityContext"]["capabilities"]["add"] == ["IPC_LOCK"]


def test_place_of_the_pool() -> None:
    toleration = {"key": "memory", "operator": "Exists", "effect": "NoSchedule"}
    place = {"nodeSelector": {"pool": "memory"}, "tolerations": [toleration]}
    pod = pool({"mooncake": {"store": {"pool": place}}})["template"]["spec"]
    assert (pod["nodeSelector"], pod["tolerations"]) == ({"pool": "memory"}, [toleration])


@pytest.mark.parametrize("storage_class", [None, "fast"])
def test_offload(storage_class: str | None) -> None:
    offload = {"size": "100Gi", "path": "/disk"}
    offload |= {"storageClass": storage_class} if storage_class else {}
    changes = {"mooncake": {"store": {"pool": {"offload": offload}}}}
    pod = pool(changes, CPU)["template"]["spec"]
    (container,) = pod["containers"]
    assert "--enable_offload=true" in container["args"]
    env = {each["name"]: each.get("value") for each in container["env"]}
    assert env["MOONCAKE_OFFLOAD_FILE_STORAGE_PATH"] == "/disk"
    assert int(env["MOONCAKE_OFFLOAD_TOTAL_SIZE_LIMIT_BYTES"]) == 90 * 2**30
    assert {"name": "offload", "mountPath": "/disk"} in container["volumeMounts"]
    (volume,) = [each for each in pod["volumes"] if each["name"] == "offload"]
    if storage_class:
        claim = volume["ephemeral"]["volumeClaimTemplate"]["spec"]
        assert (claim["storageClassName"], claim["resources"]["requests"]["storage"]) == (
            "fast", "100Gi",
        )  # fmt: skip
    else:
        assert volume["emptyDir"] == {"sizeLimit": "100Gi"}
    whole = merged(ALONE, changes)
    assert store_config(merged(CPU, whole))["enable_offload"] is True
    assert args(whole) - args({}) == {"--enable_offload=true"}
