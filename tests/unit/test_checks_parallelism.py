"""What `parallelism` may not say, with the field and what is allowed in the message."""

from typing import Any

import pytest

from pd_operator.validate import problems
from tests.specs import CPU, CUDA, at, deployment, merged

P = "spec.decode.parallelism"
DBO = {"enabled": True}
CASES: list[tuple[dict[str, Any], dict[str, Any], str, str, str]] = [
    (CPU, {"pipeline": 2}, "ParallelismNeedsGPUs", f"{P}.pipeline", "tensor and data alone"),
    (CPU, {"tensor": 2, "expert": {"enabled": True}}, "ParallelismNeedsGPUs",
     f"{P}.expert.enabled", "tensor and data alone"),
    (CUDA, {"expert": {"enabled": True}}, "ExpertParallelismNeedsRanks", f"{P}.expert.enabled",
     "tensor x data of more than 1"),
    (CUDA, {"pipeline": 2, "expert": {"enabled": True}}, "ExpertParallelismNeedsRanks",
     f"{P}.expert.enabled", "tensor x data of more than 1"),
    (CUDA, {"data": 2, "expert": {"all2allBackend": "nixl_ep"}}, "ExpertParallelismNeeded",
     f"{P}.expert.all2allBackend", "set it to true"),
    (CUDA, {"data": 2, "expert": {"all2allBackend": "nixl_ep", "enabled": False}},
     "ExpertParallelismNeeded", f"{P}.expert.all2allBackend", "set it to true"),
    (CUDA, {"data": 2, "expert": {"eplb": {"enabled": True}}}, "ExpertParallelismNeeded",
     f"{P}.expert.eplb.enabled", "set it to true"),
    (CUDA, {"data": 2, "expert": {"enabled": True, "dbo": DBO}}, "DualBatchOverlapNeedsBackend",
     f"{P}.expert.all2allBackend", "deepep_low_latency, deepep_high_throughput, nixl_ep"),
    (CUDA, {"data": 2, "expert": {"enabled": True, "dbo": DBO, "all2allBackend": "deepep_v2"}},
     "DualBatchOverlapNeedsBackend", f"{P}.expert.all2allBackend", "nixl_ep"),
    (CUDA, {"data": 4, "nodes": 3}, "UnevenNodes", f"{P}.nodes", "it must divide data"),
    (CUDA, {"data": 2, "tensor": 2, "nodes": 4}, "UnevenNodes", f"{P}.nodes", "divide data"),
    (CUDA, {"nodes": 2}, "UnevenNodes", f"{P}.nodes", "it must divide tensor x pipeline"),
    (merged(CUDA, at("kvTransfer.connector", "Nixl")), {"data": 2, "nodes": 2},
     "GroupsNeedConnector", f"{P}.nodes", "take Mooncake"),
    (CUDA, {"tensor": 3}, "IncompatibleParallelism", "spec.prefill.parallelism.tensor",
     "divide one another"),
]  # fmt: skip


@pytest.mark.parametrize(("base", "parallelism", "reason", "field", "message"), CASES)
def test_refused(
    base: dict[str, Any], parallelism: dict[str, Any], reason: str, field: str, message: str
) -> None:
    spec = merged(base, {"decode": {"parallelism": parallelism}, "prefill": at(
        "parallelism.tensor", 2 if reason == "IncompatibleParallelism" else 1)})  # fmt: skip
    (problem,) = problems(deployment(spec))
    assert (problem.reason, problem.field) == (reason, field)
    assert field in problem.message
    assert message in problem.message


def test_experts_must_be_on_for_dual_batch_overlap() -> None:
    expert = {"dbo": DBO, "all2allBackend": "nixl_ep"}
    found = problems(
        deployment(merged(CUDA, at("decode.parallelism", {"data": 2, "expert": expert})))
    )
    assert [problem.field for problem in found] == [
        f"{P}.expert.all2allBackend", f"{P}.expert.dbo.enabled",
    ]  # fmt: skip


GOOD: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (CPU, {"tensor": 2, "data": 2}),
    (CPU, {"pipeline": 1, "expert": {"enabled": False}}),
    (CUDA, {"pipeline": 4, "expert": {"dbo": {"decodeTokenThreshold": 2}}}),
    (CUDA, {"data": 8, "nodes": 4}),
    (CUDA, {"pipeline": 2, "nodes": 2}),
    (CUDA, {"tensor": 8, "nodes": 2}),
    (CPU, {"data": 2, "nodes": 2}),
    (CUDA, {"tensor": 2, "expert": {"enabled": True, "eplb": {"enabled": True}}}),
    *(
        (CUDA, {"data": 2, "expert": {"enabled": True, "all2allBackend": backend, "dbo": DBO}})
        for backend in ("deepep_low_latency", "deepep_high_throughput", "nixl_ep")
    ),
]


@pytest.mark.parametrize(("base", "parallelism"), GOOD)
def test_accepted(base: dict[str, Any], parallelism: dict[str, Any]) -> None:
    assert problems(deployment(merged(base, at("decode.parallelism", parallelism)))) == ()


@pytest.mark.parametrize("flag", ["--api-server-count=1", "--api_server_count", "-asc=2"])
def test_pods_without_a_server_take_no_number_of_servers(flag: str) -> None:
    groups = at("decode.parallelism", {"data": 2, "nodes": 2})
    given = merged(CUDA, {"engine": {"args": ["--seed=1", flag]}})
    (problem,) = problems(deployment(merged(given, groups)))
    assert (problem.reason, problem.field) == ("ArgumentNotAllowed", "spec.engine.args[1]")
    assert problems(deployment(given)) == ()


@pytest.mark.parametrize(("tier", "problem"), [("decode", True), ("prefill", False)])
def test_the_other_tier_may_have_a_number_of_servers(tier: str, *, problem: bool) -> None:
    groups = at("decode.parallelism", {"data": 2, "nodes": 2})
    given = merged(merged(CUDA, groups), at(f"{tier}.args", ["--api-server-count=2"]))
    fields = [found.field for found in problems(deployment(given))]
    assert fields == (["spec.decode.args[0]"] if problem else [])
