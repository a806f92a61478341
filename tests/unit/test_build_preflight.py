"""The init container that checks RDMA before the engine starts."""

from typing import Any

import pytest

from pd_launch.check import _parser
from pd_operator.build.parts.preflight import ENVIRONMENT
from pd_operator.preflight import CONTAINER
from pd_operator.validate import problems
from pd_shared.labels import DECODER, PREFILLER
from tests.specs import CPU, CUDA, STORE, deployment, engine_pod, merged

OFF = {"rdma": {"preflight": {"enabled": False}}}


def preflight(spec: dict[str, Any], component: str = DECODER) -> dict[str, Any] | None:
    found = engine_pod(spec, component).get("initContainers", [])
    return next((c for c in found if c["name"] == CONTAINER), None)


def arguments(spec: dict[str, Any], component: str = DECODER) -> Any:
    container = preflight(spec, component)
    assert container is not None
    command = container["command"]
    return _parser().parse_args(command[command.index("preflight") + 1 :])


@pytest.mark.parametrize("component", [PREFILLER, DECODER])
def test_engines_on_rdma_are_checked_with_their_own_devices(component: str) -> None:
    container = preflight(CUDA, component)
    assert container is not None
    devices = {"rdma/hca_shared_devices_a": "1"}
    assert devices.items() <= container["resources"]["limits"].items()
    assert "nvidia.com/gpu" not in container["resources"]["limits"]
    assert container["securityContext"]["capabilities"] == {"add": ["IPC_LOCK"], "drop": ["ALL"]}


@pytest.mark.parametrize("spec", [CPU, merged(CUDA, OFF), merged(CUDA, {"mode": "Colocated"})])
def test_nothing_is_checked_where_there_is_nothing_or_it_is_off(spec: dict[str, Any]) -> None:
    assert preflight(spec) is None
    command = engine_pod(spec, DECODER)["containers"][0]["command"]
    assert not any(word.startswith("--environment") for word in command)


def test_the_launcher_reads_what_the_preflight_writes() -> None:
    assert arguments(CUDA).environment == ENVIRONMENT
    container = engine_pod(CUDA, DECODER)["containers"][0]
    assert f"--environment={ENVIRONMENT}" in container["command"]
    for mounts in (container["volumeMounts"], (preflight(CUDA) or {})["volumeMounts"]):
        assert any(ENVIRONMENT.startswith(f"{m['mountPath']}/") for m in mounts)


def test_defaults_check_no_more_than_is_known() -> None:
    found = arguments(CUDA)
    assert (found.devices, found.gid_index, found.mtu, found.link_layer) == ("", None, None, None)
    assert (found.fallback, found.peermem, found.memlock_bytes) == ("Never", False, None)


def test_what_is_asked_for_is_checked() -> None:
    rdma = {
        "devices": ["mlx5_0", "mlx5_1"], "gidIndex": 3, "mtu": 4096, "fallback": "TCP",
        "memoryRegistration": "Peermem",
        "preflight": {"linkLayer": "Ethernet", "minMemlock": "1Gi"},
    }  # fmt: skip
    found = arguments(merged(CUDA, {"rdma": rdma}))
    assert (found.devices, found.gid_index, found.mtu) == ("mlx5_0,mlx5_1", 3, 4096)
    assert (found.link_layer, found.fallback, found.peermem) == ("Ethernet", "TCP", True)
    assert found.memlock_bytes == 2**30


@pytest.mark.parametrize(
    "spec",
    [
        merged(CUDA, {"rdma": {"fallback": "TCP", "preflight": {"enabled": False}}}),
        merged(CUDA, {"rdma": {"fallback": "TCP"}, "kvTransfer": {"connector": "Nixl"}}),
        merged(CUDA, {"rdma": {"fallback": "TCP"}, **STORE}),
    ],
)
def test_a_fallback_that_could_not_be_taken_is_refused(spec: dict[str, Any]) -> None:
    (problem,) = problems(deployment(spec))
    assert problem.field == "spec.rdma.fallback"
    assert "must be Never" in problem.message


def test_a_fallback_of_mooncake_is_fine() -> None:
    assert problems(deployment(merged(CUDA, {"rdma": {"fallback": "TCP"}}))) == ()


@pytest.mark.parametrize(
    ("connector", "of_prefiller", "of_decoder"),
    [
        ("Mooncake", "tiny-decoder.ns.svc.cluster.local:8000",
         "tiny-prefiller.ns.svc.cluster.local:8998"),
        ("Multi", "tiny-decoder.ns.svc.cluster.local:8000",
         "tiny-prefiller.ns.svc.cluster.local:8998"),
        ("Nixl", "tiny-decoder.ns.svc.cluster.local:8000",
         "tiny-prefiller.ns.svc.cluster.local:5600"),
        ("MooncakeStore", None, None),
        ("LMCache", None, None),
    ],
)  # fmt: skip
def test_engines_that_talk_to_one_another_look_for_the_other_tier(
    connector: str, of_prefiller: str | None, of_decoder: str | None
) -> None:
    spec = merged(CUDA, {"kvTransfer": {"connector": connector}})
    for component, peer in ((PREFILLER, of_prefiller), (DECODER, of_decoder)):
        assert arguments(spec, component).peer == ([peer] if peer else [])
