"""LMCache's files: those written by hand for such a deployment come out of a short spec."""

from typing import Any

import pytest
import yaml

from pd_shared.labels import DECODER, PREFILLER
from tests.specs import CUDA, at, children, deployment, merged, part, variables

# Written for LMCache as it was when MooncakeConnector did not exist, master and metadata service on
# one host. Of the keys each pod's own address is the only one that the file cannot hold.
PREFILLER_BY_HAND = """
chunk_size: 256
local_cpu: False
max_local_cpu_size: 100
remote_url: "mooncakestore://qwen-mooncake.models.svc.cluster.local:50052/"
remote_serde: "naive"
extra_config:
  local_hostname: "10.0.0.1"
  metadata_server: "http://qwen-mooncake.models.svc.cluster.local:8080/metadata"
  protocol: "rdma"
  device_name: "mlx5_0"
  global_segment_size: 32212254720
  local_buffer_size: 1073741824
"""
DECODER_BY_HAND = """
chunk_size: 256
local_cpu: False
max_local_cpu_size: 40
remote_url: "mooncakestore://qwen-mooncake.models.svc.cluster.local:50052/"
remote_serde: "naive"
extra_config:
  local_hostname: "10.0.0.1"
  metadata_server: "http://qwen-mooncake.models.svc.cluster.local:8080/metadata"
  protocol: "rdma"
  device_name: "mlx5_0"
  global_segment_size: 32212254720
  local_buffer_size: 1073741824
"""

SHORT = yaml.safe_load("""
model: {id: Qwen/Qwen3-32B}
engine: {image: vllm/vllm-openai:v0.33.0, version: 0.33.0}
kvTransfer: {connector: LMCache}
rdma: {devices: [mlx5_0]}
mooncake: {master: {port: 50052}, store: {segmentSize: 30Gi}}
lmcache: {prefill: {localCpuSize: 100Gi}, decode: {localCpuSize: 40Gi}}
""")

ADDED = {"master_server_address": "qwen-mooncake.models.svc.cluster.local:50052"}
"""LMCache 0.5 no longer takes the master from `remote_url`, but from here."""

LMCACHE = merged(CUDA, at("kvTransfer.connector", "LMCache"))


def as_read(spec: dict[str, Any], component: str) -> dict[str, Any]:
    """What LMCache reads in a pod with the address 10.0.0.1: the file, then its variables."""
    of = deployment(spec, name="qwen", namespace="models")
    found = children(of)
    text = found["ConfigMap", f"qwen-{component}-lmcache"]["data"]["lmcache.yaml"]
    config: dict[str, Any] = yaml.safe_load(text)
    (pod,) = (
        manifest["spec"]["template"]["spec"]
        for (kind, name), manifest in found.items()
        if kind == "StatefulSet" and component in name
    )
    env = {each["name"]: each.get("value", "") for each in pod["containers"][0]["env"]}
    extra = env["LMCACHE_EXTRA_CONFIG"].replace("$(VLLM_HOST_IP)", "10.0.0.1")
    return {**config, "extra_config": yaml.safe_load(extra)}


@pytest.mark.parametrize(
    ("component", "by_hand"), [(PREFILLER, PREFILLER_BY_HAND), (DECODER, DECODER_BY_HAND)]
)
def test_files_written_by_hand(component: str, by_hand: str) -> None:
    expected = yaml.safe_load(by_hand)
    expected["extra_config"] |= ADDED
    assert as_read(SHORT, component) == expected


def test_the_file_has_all_but_the_pods_own_address() -> None:
    for component in (PREFILLER, DECODER):
        found = children(deployment(SHORT, name="qwen", namespace="models"))
        text = found["ConfigMap", f"qwen-{component}-lmcache"]["data"]["lmcache.yaml"]
        read = as_read(SHORT, component)
        del read["extra_config"]["local_hostname"]
        assert yaml.safe_load(text) == read


def test_engines_find_their_file_and_no_other() -> None:
    for component in (PREFILLER, DECODER):
        found = part(LMCACHE, component)
        env = variables(LMCACHE, component)
        assert env["LMCACHE_CONFIG_FILE"] == "/etc/lmcache/lmcache.yaml"
        # It would win over extra_config.
        assert "MOONCAKE_CONFIG_PATH" not in env
        (volume,) = [each for each in found.volumes if each["name"] == "lmcache"]
        assert volume["configMap"]["name"] == f"tiny-{component}-lmcache"
        assert [each["mountPath"] for each in found.mounts if each["name"] == "lmcache"] == [
            "/etc/lmcache"
        ]
    assert ("ConfigMap", "tiny-engine") not in children(deployment(LMCACHE))


def test_the_address_is_known_before_it_is_used() -> None:
    found = variables(LMCACHE, PREFILLER)
    assert list(found).index("VLLM_HOST_IP") < list(found).index("LMCACHE_EXTRA_CONFIG")


def test_a_tier_rolls_when_its_file_changes_and_the_other_does_not() -> None:
    other = merged(LMCACHE, at("lmcache.prefill.localCpu", True))
    changed = {
        component: part(LMCACHE, component).annotations != part(other, component).annotations
        for component in (PREFILLER, DECODER)
    }
    assert changed == {PREFILLER: True, DECODER: False}


@pytest.mark.parametrize(
    ("size", "expected"), [("100Gi", 100), ("1536Mi", 1.5), ("1G", 0.931323), ("5Gi", 5)]
)
def test_sizes_are_in_gib(size: str, expected: float) -> None:
    spec = merged(LMCACHE, at("lmcache.decode.localCpuSize", size))
    found = children(deployment(spec))["ConfigMap", "tiny-decoder-lmcache"]["data"]["lmcache.yaml"]
    assert yaml.safe_load(found)["max_local_cpu_size"] == expected


def test_standalone_store_takes_no_memory_of_the_engines() -> None:
    spec = merged(SHORT, at("mooncake.store.mode", "Standalone"))
    assert as_read(spec, DECODER)["extra_config"]["global_segment_size"] == 0


def test_several_masters_are_found_through_etcd() -> None:
    spec = merged(SHORT, at("mooncake.master.ha.etcd.endpoints", ["a:2379", "b:2379"]))
    extra = as_read(spec, DECODER)["extra_config"]
    assert extra["master_server_address"] == "etcd://a:2379;b:2379"
    assert extra["metadata_server"] == "P2PHANDSHAKE"


# The server of LMCacheMP.

SERVER = merged(
    CUDA, {"kvTransfer": {"connector": "LMCacheMP", "protocol": "tcp"}, "lmcache": {
        "chunkSize": 128, "server": {"memory": "8Gi"}}}
)  # fmt: skip


def server(spec: dict[str, Any] = SERVER) -> dict[str, Any]:
    pod = children(deployment(spec))["Deployment", "tiny-lmcache"]["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    result: dict[str, Any] = container
    return result


def test_server() -> None:
    found = server()
    assert found["image"] == "registry.example/vllm:1"
    assert found["command"] == ["python3", "-m", "lmcache.v1.multiprocess.http_server"]
    assert {
        "--host=0.0.0.0", "--port=5555", "--http-host=0.0.0.0", "--http-port=8080",
        "--chunk-size=128", "--l1-size-gb=8", "--supported-transfer-mode=engine_driven",
    } <= set(found["args"])  # fmt: skip
    assert found["resources"]["limits"] == {"memory": "10737418240"}
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert found[probe]["httpGet"] == {"path": "/healthcheck", "port": "admin"}


def test_server_image() -> None:
    own = merged(SERVER, at("lmcache.server.image", "registry.example/lmcache:1"))
    assert server(own)["image"] == "registry.example/lmcache:1"


def test_engines_know_the_server_and_wait_for_it() -> None:
    host = "tiny-lmcache.ns.svc.cluster.local"
    for component in (PREFILLER, DECODER):
        found = part(SERVER, component)
        (wait,) = [c for c in found.init_containers if c["name"] == "wait-for-lmcache"]
        assert wait["command"][-2:] == [host, "5555"]
        assert "Mooncake" not in wait["command"][2]
        assert f"tcp://{host}" in " ".join(found.args)


def test_only_requests_are_reached_through_the_service() -> None:
    service = children(deployment(SERVER))["Service", "tiny-lmcache"]["spec"]
    assert [(port["name"], port["port"]) for port in service["ports"]] == [("lmcache", 5555)]


def test_a_budget_of_its_own() -> None:
    assert ("PodDisruptionBudget", "tiny-lmcache") in children(deployment(SERVER))
