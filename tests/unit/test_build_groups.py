"""Replicas of more than one pod: how their pods find one another, and what each is told."""

from typing import Any

from pd_operator.build import desired
from pd_operator.plan import with_replicas
from pd_shared.labels import DECODER, GROUP_SIZE, PREFILLER
from tests.specs import CUDA, DEFAULTS, at, deployment, engine_pod, merged, part

Spec = dict[str, Any]
DATA: Spec = merged(CUDA, at("decode.parallelism", {"tensor": 2, "data": 8, "nodes": 4}))
TENSOR: Spec = merged(CUDA, at("decode.parallelism", {"tensor": 8, "pipeline": 2, "nodes": 2}))


def options(spec: Spec) -> list[str]:
    command: list[str] = engine_pod(spec, DECODER)["containers"][0]["command"]
    given = command[command.index("launch") + 1 : command.index("--")]
    return [option for option in given if not option.startswith("--environment=")]


def test_data_parallel_ranks_meet_at_the_leader() -> None:
    assert {
        "--data-parallel-size=8", "--data-parallel-size-local=2", "--data-parallel-rpc-port=29550",
    } <= set(part(DATA, DECODER).args)  # fmt: skip
    assert options(DATA) == [
        "--group-size=4",
        "--service=tiny-decoder",
        "--namespace=ns",
        "--cluster-domain=cluster.local",
        "--ranks-per-node=2",
        "--leader-arg=--data-parallel-address=$(VLLM_HOST_IP)",
        "--worker-arg=--headless",
        "--worker-arg=--data-parallel-address={leader_address}",
        "--worker-arg=--data-parallel-start-rank={start_rank}",
    ]


def test_tensor_and_pipeline_ranks_over_nodes() -> None:
    args = part(TENSOR, DECODER).args
    assert {"--nnodes=2", "--node-rank={node_rank}", "--master-port=29501"} <= set(args)
    assert not [each for each in args if each.startswith("--data-parallel")]
    assert options(TENSOR)[4:] == [
        "--ranks-per-node=1",
        "--leader-arg=--master-addr=$(VLLM_HOST_IP)",
        "--worker-arg=--headless",
        "--worker-arg=--master-addr={leader_address}",
    ]


def test_gpus_are_those_of_a_pod() -> None:
    assert part(DATA, DECODER).devices["nvidia.com/gpu"] == 4
    assert part(TENSOR, DECODER).devices["nvidia.com/gpu"] == 8


def test_launchers_answer_the_probes_of_a_group() -> None:
    container = engine_pod(DATA, DECODER)["containers"][0]
    assert container["startupProbe"]["httpGet"] == {"path": "/ready", "port": "group"}
    assert container["readinessProbe"]["httpGet"] == {"path": "/ready", "port": "group"}
    assert container["livenessProbe"]["httpGet"] == {"path": "/live", "port": "group"}
    ports = {each["name"]: each["containerPort"] for each in container["ports"]}
    assert (ports["rendezvous"], ports["group"]) == (8996, 8997)
    assert container["env"][1]["name"] == "POD_NAME"


def test_a_tier_without_groups_has_nothing_of_them() -> None:
    found = part(DATA, PREFILLER)
    assert GROUP_SIZE not in found.annotations
    assert found.ports == part(CUDA, PREFILLER).ports
    assert engine_pod(DATA, PREFILLER) == engine_pod(CUDA, PREFILLER)


def test_the_stateful_set_has_pods_for_whole_groups() -> None:
    tier = desired(deployment(DATA), DEFAULTS).decoder
    assert tier.group_size == 4
    assert with_replicas(tier, 3)["spec"]["replicas"] == 12
    annotations = tier.stateful_set["spec"]["template"]["metadata"]["annotations"]
    assert annotations[GROUP_SIZE] == "4"
