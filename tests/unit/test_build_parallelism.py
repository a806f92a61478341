"""From `parallelism` to vLLM's flags and the GPUs of a pod."""

import json
from typing import Any

import pytest

from pd_shared.labels import DECODER, PREFILLER
from tests.specs import CPU, CUDA, at, merged, part

GPU = "nvidia.com/gpu"


def arguments(parallelism: dict[str, Any], component: str = DECODER) -> tuple[str, ...]:
    return part(merged(CUDA, at("decode.parallelism", parallelism)), component).args


def new(parallelism: dict[str, Any]) -> set[str]:
    """The arguments that a spec without parallelism does not have."""
    return set(arguments(parallelism)) - set(arguments({}))


def test_nothing_is_said_of_what_is_one() -> None:
    assert new({"tensor": 1, "pipeline": 1, "data": 1, "expert": {"enabled": False}}) == set()


def test_sizes() -> None:
    given = {"tensor": 4, "pipeline": 2, "data": 3}
    assert new(given) == {
        "--tensor-parallel-size=4", "--pipeline-parallel-size=2", "--data-parallel-size=3",
    }  # fmt: skip
    assert arguments(given, PREFILLER) == arguments({}, PREFILLER)


def test_a_gpu_for_each_rank() -> None:
    spec = merged(CUDA, at("decode.parallelism", {"tensor": 2, "pipeline": 3, "data": 4}))
    assert part(spec, DECODER).devices[GPU] == 24
    assert part(spec, PREFILLER).devices[GPU] == 1
    assert GPU not in part(merged(CPU, at("decode.parallelism.data", 2)), DECODER).devices


def test_threads_are_shared_out_between_ranks() -> None:
    tier = {"parallelism": {"tensor": 2, "data": 2}, "resources": {"limits": {"cpu": 8}}}
    assert part(merged(CPU, {"decode": tier}), DECODER).env["OMP_NUM_THREADS"] == "2"


def test_experts() -> None:
    expert = {
        "enabled": True,
        "all2allBackend": "deepep_low_latency",
        "dbo": {"enabled": True, "decodeTokenThreshold": 16, "prefillTokenThreshold": 256},
        "eplb": {
            "enabled": True, "windowSize": 500, "stepInterval": 1500, "numRedundantExperts": 32,
            "logBalancedness": True,
        },
    }  # fmt: skip
    found = {
        name: value
        for name, _, value in (
            argument.partition("=") for argument in new({"data": 8, "expert": expert})
        )
    }
    assert json.loads(found.pop("--eplb-config")) == {
        "window_size": 500,
        "step_interval": 1500,
        "num_redundant_experts": 32,
        "log_balancedness": True,
    }
    assert found == {
        "--data-parallel-size": "8",
        "--enable-expert-parallel": "",
        "--all2all-backend": "deepep_low_latency",
        "--enable-dbo": "",
        "--dbo-decode-token-threshold": "16",
        "--dbo-prefill-token-threshold": "256",
        "--enable-eplb": "",
    }


def test_defaults_of_experts_are_vllms() -> None:
    expert = {"enabled": True, "dbo": {"enabled": True}, "eplb": {"enabled": True}}
    assert new({"data": 2, "expert": expert}) == {
        "--data-parallel-size=2", "--enable-expert-parallel", "--enable-dbo", "--enable-eplb",
    }  # fmt: skip


@pytest.mark.parametrize("name", ["dbo", "eplb"])
def test_thresholds_alone_turn_nothing_on(name: str) -> None:
    key = {"dbo": "decodeTokenThreshold", "eplb": "windowSize"}[name]
    expert = {"enabled": True, name: {key: 7}}
    assert new({"tensor": 2, "expert": expert}) == {
        "--tensor-parallel-size=2", "--enable-expert-parallel",
    }  # fmt: skip
