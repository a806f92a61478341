"""vLLM's command line and environment in each tier."""

from typing import Any

import pytest

from pd_shared.labels import DECODER, PREFILLER
from tests.specs import CPU, CUDA, STORE, merged, part
from tests.specs import variables as tier_variables


def variables(spec: dict[str, Any], component: str = PREFILLER) -> dict[str, Any]:
    return tier_variables(spec, component)


def arguments(spec: dict[str, Any], component: str) -> list[str]:
    return list(part(spec, component).args)


def source(**kind: Any) -> dict[str, Any]:
    return {"model": {"id": "org/model", "source": kind}}


@pytest.mark.parametrize(
    ("changes", "model", "offline"),
    [
        ({}, "org/model", False),
        (source(huggingFace={}), "org/model", False),
        (source(pvc={"claimName": "c"}), "/mnt/model", True),
        (source(pvc={"claimName": "c", "path": "a/b"}), "/mnt/model/a/b", True),
        (source(local={"path": "/models/tiny"}), "/models/tiny", True),
        (source(oci={"image": "weights:1"}), "/mnt/model", True),
        (source(oci={"image": "weights:1", "path": "a/b"}), "/mnt/model/a/b", True),
    ],
)
def test_model_source(changes: dict[str, Any], model: str, offline: bool) -> None:
    spec = merged(CUDA, changes)
    given = arguments(spec, DECODER)
    assert given[0] == model
    assert "--served-model-name=org/model" in given
    assert ("HF_HUB_OFFLINE" in variables(spec)) is offline


def test_served_name() -> None:
    spec = merged(CUDA, {"model": {"servedName": "gpt"}})
    assert "--served-model-name=gpt" in arguments(spec, DECODER)


def test_revision_and_token_of_hugging_face() -> None:
    spec = merged(
        CUDA,
        source(huggingFace={"revision": "v1", "tokenSecret": {"name": "hf", "key": "t"}}),
    )
    assert "--revision=v1" in arguments(spec, PREFILLER)
    token = {"secretKeyRef": {"name": "hf", "key": "t"}}
    assert variables(spec)["HF_TOKEN"] == token
    assert "HF_TOKEN" not in variables(CUDA)


def test_fixed_arguments() -> None:
    given = arguments(CUDA, PREFILLER)
    assert {"--host=0.0.0.0", "--port=8000", "--shutdown-timeout=120"} <= set(given)


@pytest.mark.parametrize(("component", "size"), [(PREFILLER, 8), (DECODER, 2)])
def test_each_tier_has_its_own_tensor_parallelism(component: str, size: int) -> None:
    tiers = {"prefill": {"parallelism": {"tensor": 8}}, "decode": {"parallelism": {"tensor": 2}}}
    given = arguments(merged(CUDA, tiers), component)
    assert f"--tensor-parallel-size={size}" in given


def test_own_arguments_come_last_and_unchanged() -> None:
    own = ["--max-model-len", "4096", '--speculative-config={"method": "ngram"}']
    given = arguments(merged(CUDA, {"engine": {"args": own}}), DECODER)
    assert given[-3:] == own


def test_host_address_is_the_pod_ip() -> None:
    assert variables(CUDA)["VLLM_HOST_IP"] == {"fieldRef": {"fieldPath": "status.podIP"}}


def test_only_prefillers_have_a_bootstrap_server() -> None:
    assert variables(CUDA, PREFILLER)["VLLM_MOONCAKE_BOOTSTRAP_PORT"] == "8998"
    assert "VLLM_MOONCAKE_BOOTSTRAP_PORT" not in variables(CUDA, DECODER)


@pytest.mark.parametrize("component", [PREFILLER, DECODER])
def test_rdma_never_falls_back(component: str) -> None:
    found = variables(CUDA, component)
    assert found["MC_FORCE_HCA"] == "1"
    assert "MC_FORCE_TCP" not in found
    assert "MC_TE_FILTERS" not in found


def test_tcp_does_not_take_rdma_devices_that_it_finds() -> None:
    found = variables(CPU)
    assert found["MC_FORCE_TCP"] == "1"
    assert "MC_FORCE_HCA" not in found


def test_rdma_devices_are_a_filter() -> None:
    spec = merged(CUDA, {"rdma": {"devices": ["mlx5_0", "mlx5_3"]}})
    assert variables(spec)["MC_TE_FILTERS"] == "mlx5_0,mlx5_3"


def test_store_configuration_is_named_only_with_the_store() -> None:
    assert "MOONCAKE_CONFIG_PATH" not in variables(CUDA)
    path = variables(merged(CUDA, STORE))["MOONCAKE_CONFIG_PATH"]
    assert path == "/etc/mooncake/mooncake.json"


@pytest.mark.parametrize(
    ("tier", "threads"),
    [
        ({}, "1"),
        ({"resources": {"requests": {"cpu": "100m"}}}, "1"),
        ({"resources": {"requests": {"cpu": 2}, "limits": {"cpu": "7.5"}}}, "7"),
        ({"resources": {"requests": {"cpu": 8}}, "parallelism": {"tensor": 2}}, "4"),
    ],
)
def test_threads_on_the_cpu(tier: dict[str, Any], threads: str) -> None:
    found = variables(merged(CPU, {"prefill": tier}))
    assert found["OMP_NUM_THREADS"] == threads
    assert found["VLLM_CPU_OMP_THREADS_BIND"] == "nobind"


def test_cuda_threads_are_left_to_the_image() -> None:
    assert "OMP_NUM_THREADS" not in variables(CUDA)
