"""What each connector makes of the engines: vLLM's JSON of both roles, environment, ports."""

import json
from typing import Any

import pytest

from pd_operator.api.kv_transfer import Connector
from pd_operator.build.connectors import BUILDERS
from pd_operator.build.parts.kv_transfer import kv_transfer_config
from pd_shared import labels
from pd_shared.labels import DECODER, PREFILLER
from tests.specs import CPU, CUDA, STORE, at, children, deployment, merged, part, tier, variables

TCP = merged(CUDA, at("kvTransfer.protocol", "tcp"))


def using(connector: str, spec: dict[str, Any] = CUDA, **kv: Any) -> dict[str, Any]:
    return merged(spec, {"kvTransfer": {"connector": connector, **kv}})


def config(spec: dict[str, Any], component: str) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(kv_transfer_config(tier(spec, component)))
    return result


def ports(spec: dict[str, Any], component: str) -> dict[str, int]:
    return dict(part(spec, component).ports)


def test_every_connector_has_a_builder_and_a_protocol_of_the_proxy() -> None:
    assert BUILDERS.keys() == set(Connector)
    assert {each.value for each in Connector} <= set(labels.CONNECTORS)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (CUDA, "Mooncake"),
        (merged(CUDA, STORE), "Multi"),
        *((using(each.value, TCP), each.value) for each in Connector),
    ],
)
def test_pods_say_their_connector(spec: dict[str, Any], expected: str) -> None:
    for component in (PREFILLER, DECODER):
        assert part(spec, component).annotations[labels.CONNECTOR] == expected


@pytest.mark.parametrize("connector", [each.value for each in Connector])
def test_prefillers_send_and_decoders_receive(connector: str) -> None:
    spec = using(connector, TCP)
    assert config(spec, PREFILLER)["kv_role"] == "kv_producer"
    assert config(spec, DECODER)["kv_role"] == "kv_consumer"


@pytest.mark.parametrize("connector", [each.value for each in Connector if each.value != "Nixl"])
def test_symmetric(connector: str) -> None:
    for component in (PREFILLER, DECODER):
        found = config(using(connector, TCP, symmetric=True), component)
        assert found["kv_role"] == "kv_both"
        for inner in found.get("kv_connector_extra_config", {}).get("connectors", ()):
            assert inner["kv_role"] == "kv_both"


def test_symmetric_decoders_have_a_bootstrap_server_too() -> None:
    spec = using("Mooncake", symmetric=True)
    assert ports(spec, DECODER)["bootstrap"] == 8998
    assert variables(spec, DECODER)["VLLM_MOONCAKE_BOOTSTRAP_PORT"] == "8998"
    assert "bootstrap" not in ports(CUDA, DECODER)


@pytest.mark.parametrize(("asked", "policy"), [("Recompute", "recompute"), ("Fail", "fail")])
def test_load_failure_policy(asked: str, policy: str) -> None:
    spec = using("Mooncake", loadFailurePolicy=asked)
    assert config(spec, DECODER)["kv_load_failure_policy"] == policy


def test_abort_timeout_and_workers() -> None:
    spec = using("Mooncake", abortTimeout="3m", workers=4)
    assert variables(spec, PREFILLER)["VLLM_MOONCAKE_ABORT_REQUEST_TIMEOUT"] == "180"
    assert config(spec, PREFILLER)["kv_connector_extra_config"]["num_workers"] == 4
    multi = using("Multi", abortTimeout="3m", workers=4)
    assert variables(multi, PREFILLER)["VLLM_MOONCAKE_ABORT_REQUEST_TIMEOUT"] == "180"
    nixl = config(using("Nixl", abortTimeout="45s", workers=8), PREFILLER)
    assert nixl["kv_connector_extra_config"] == {
        "backends": ["UCX"], "kv_lease_duration": 45, "num_threads": 8,
    }  # fmt: skip


def test_nixl() -> None:
    for component, role in ((PREFILLER, "kv_producer"), (DECODER, "kv_consumer")):
        spec = using("Nixl", CPU)
        assert config(spec, component) == {
            "kv_connector": "NixlConnector",
            "kv_role": role,
            "kv_connector_extra_config": {"backends": ["UCX"]},
            "kv_buffer_device": "cpu",
            "kv_load_failure_policy": "recompute",
        }
        found = variables(spec, component)
        assert found["VLLM_NIXL_SIDE_CHANNEL_HOST"] == {"fieldRef": {"fieldPath": "status.podIP"}}
        assert found["VLLM_NIXL_SIDE_CHANNEL_PORT"] == "5600"
        assert ports(spec, component) == {"http": 8000, "nixl": 5600}
        assert "VLLM_MOONCAKE_BOOTSTRAP_PORT" not in found


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (CPU, {"UCX_TLS": "tcp"}),
        (TCP, {"UCX_TLS": "tcp,cuda_copy,cuda_ipc"}),
        (CUDA, {"UCX_TLS": "rc,cuda_copy,cuda_ipc"}),
        (
            merged(CUDA, at("rdma.devices", ["mlx5_0", "mlx5_1"])),
            {"UCX_TLS": "rc,cuda_copy,cuda_ipc", "UCX_NET_DEVICES": "mlx5_0:1,mlx5_1:1"},
        ),
    ],
)
def test_ucx_takes_the_protocol_that_is_asked_for(
    spec: dict[str, Any], expected: dict[str, str]
) -> None:
    found = variables(using("Nixl", spec), DECODER)
    assert {key: value for key, value in found.items() if key.startswith("UCX_")} == expected


def test_only_mooncakes_prefillers_have_a_bootstrap_server() -> None:
    for connector in Connector:
        spec = using(connector.value, TCP)
        wanted = connector in (Connector.MOONCAKE, Connector.MULTI)
        service = children(deployment(spec))["Service", "tiny-prefiller"]["spec"]["ports"]
        assert ("bootstrap" in ports(spec, PREFILLER)) == wanted
        assert ("bootstrap" in {port["name"] for port in service}) == wanted


def test_store_connector_reads_its_file_and_turns_the_store_on() -> None:
    spec = using("MooncakeStore")
    assert config(spec, DECODER) == {
        "kv_connector": "MooncakeStoreConnector",
        "kv_role": "kv_consumer",
        "kv_load_failure_policy": "recompute",
    }
    assert variables(spec, DECODER)["MOONCAKE_CONFIG_PATH"] == "/etc/mooncake/mooncake.json"
    assert ("Deployment", "tiny-mooncake") in children(deployment(spec))


def test_multi_is_mooncake_beside_the_store() -> None:
    for component in (PREFILLER, DECODER):
        alike = kv_transfer_config(tier(merged(CUDA, STORE), component))
        assert kv_transfer_config(tier(using("Multi"), component)) == alike


def test_connectors_do_not_pair_with_one_another() -> None:
    specs = [using(each.value, TCP) for each in Connector]
    pairings = {
        children(deployment(spec))[key]["metadata"]["labels"][labels.PAIRING]
        for spec in specs
        for key in children(deployment(spec))
        if key[0] == "StatefulSet"
    }
    assert len(pairings) == len(specs)


def test_sizes_of_the_store_do_not_change_the_pairing() -> None:
    spec = using("MooncakeStore")
    other = merged(spec, at("mooncake.store", {"segmentSize": "1Gi", "mode": "Standalone"}))
    assert part(spec, DECODER).pairing == part(other, DECODER).pairing
