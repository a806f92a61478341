"""The JSON of --kv-transfer-config: only keys that vLLM takes, in the right places."""

import json
from typing import Any

from pd_operator.build.parts.kv_transfer import kv_transfer_config
from pd_shared.labels import DECODER, PREFILLER
from tests.specs import CPU, CUDA, STORE, merged, tier

VLLM_KEYS = {
    "kv_connector", "kv_role", "kv_connector_extra_config", "kv_load_failure_policy",
}  # fmt: skip


def config(spec: dict[str, Any], component: str) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(kv_transfer_config(tier(spec, component)))
    assert result.keys() <= VLLM_KEYS, "vLLM refuses other keys at start"
    return result


def test_prefiller_over_rdma() -> None:
    assert config(CUDA, PREFILLER) == {
        "kv_connector": "MooncakeConnector",
        "kv_role": "kv_producer",
        "kv_connector_extra_config": {"mooncake_protocol": "rdma", "num_workers": 10},
        "kv_load_failure_policy": "recompute",
    }


def test_decoder_on_the_cpu() -> None:
    assert config(CPU, DECODER) == {
        "kv_connector": "MooncakeConnector",
        "kv_role": "kv_consumer",
        "kv_connector_extra_config": {"mooncake_protocol": "tcp", "num_workers": 2},
        "kv_load_failure_policy": "recompute",
    }


def test_devices() -> None:
    spec = merged(CUDA, {"rdma": {"devices": ["mlx5_0", "mlx5_1"]}})
    extra = config(spec, DECODER)["kv_connector_extra_config"]
    assert extra["device_name"] == "mlx5_0,mlx5_1"


def test_store_is_a_second_connector() -> None:
    for component, role, store_role in (
        (PREFILLER, "kv_producer", "kv_both"),
        (DECODER, "kv_consumer", "kv_consumer"),
    ):
        found = config(merged(CUDA, STORE), component)
        assert found["kv_connector"] == "MultiConnector"
        assert found["kv_role"] == role
        assert found["kv_load_failure_policy"] == "recompute"
        direct, store = found["kv_connector_extra_config"]["connectors"]
        assert direct["kv_connector"] == "MooncakeConnector"
        assert direct["kv_role"] == role
        assert direct["kv_connector_extra_config"]["mooncake_protocol"] == "rdma"
        assert store == {"kv_connector": "MooncakeStoreConnector", "kv_role": store_role}
