"""The Mooncake master and the engines' store configuration."""

import json
from typing import Any

import pytest

from tests.specs import CPU, CUDA, STORE, children, deployment, merged


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
