"""What does not work together: each row refuses what it names, and nothing else."""

from typing import Any

import pytest

from pd_operator.checks.compatibility import document, version_warning
from pd_operator.checks.compatibility.rules import RULES
from pd_operator.validate import problems
from tests.specs import CPU, CUDA, STORE, deployment, merged
from tools.paths import REPOSITORY


def connector(name: str, base: dict[str, Any] = CUDA, **more: Any) -> dict[str, Any]:
    return merged(base, {"kvTransfer": {"connector": name, **more}})


def args(*given: str) -> dict[str, Any]:
    return {"engine": {"args": list(given)}}


def of_a_tier(*given: str) -> dict[str, Any]:
    return {"decode": {"args": list(given)}}


OLD = {"engine": {"version": "0.32.0"}}
SPECULATOR = '--speculative-config={"method": "medusa", "num_speculative_tokens": 2}'
TWO_TO_ONE: dict[str, Any] = {"prefill": {"parallelism": {"tensor": 2}}}
NVFP4 = merged(args("--kv-cache-dtype", "nvfp4"), TWO_TO_ONE)
TYPED_NVFP4 = merged({"engine": {"kvCacheDtype": "nvfp4"}}, TWO_TO_ONE)
THREE_TO_TWO = {
    "prefill": {"parallelism": {"tensor": 3}},
    "decode": {"parallelism": {"tensor": 2}},
}
SLEEP = args("--enable-sleep-mode")

LORA = {"model": {"adapters": [{"name": "sql", "source": {"local": {"path": "/sql"}}}]}}
DUAL_BATCH = {
    "decode": {
        "parallelism": {
            "data": 2,
            "expert": {
                "enabled": True, "all2allBackend": "deepep_v2", "dbo": {"enabled": True},
            },
        }
    }
}  # fmt: skip

BROKEN = {
    "TwoConnectors": [merged(CUDA, {**STORE, **OLD}), merged(connector("Multi"), OLD)],
    "TensorRatio": [merged(CUDA, THREE_TO_TWO)],
    "PackedKVHeads": [
        merged(CUDA, NVFP4),
        merged(connector("Nixl"), NVFP4),
        merged(CUDA, TYPED_NVFP4),
        merged(merged(CUDA, args("--kv_cache_dt=NVFP4")), TWO_TO_ONE),
    ],
    "LMCacheOnCPU": [connector("LMCache", CPU)],
    "LMCacheHybrid": [
        merged(connector("LMCache"), args("--no_disable_hybrid_kv_cache_manager")),
        merged(connector("LMCache"), of_a_tier("--no-disable-hybrid-kv-cache-manager")),
    ],
    "LMCacheServerProtocol": [connector("LMCacheMP", protocol="rdma")],
    "SymmetricNixl": [connector("Nixl", symmetric=True)],
    "PartitionNixl": [merged(connector("Nixl"), {"rdma": {"pkeyIndex": 0}})],
    "SleepMode": [
        merged(connector("MooncakeStore"), SLEEP),
        merged(connector("Mooncake", protocol="tcp"), SLEEP),
        merged(merged(CUDA, OLD), SLEEP),
        merged(connector("Mooncake", protocol="tcp"), of_a_tier("--enable-sleep")),
    ],
    "RemovedSpeculator": [
        merged(CUDA, args(SPECULATOR)),
        merged(CUDA, args("--speculative-config.method=mlp_speculator")),
        merged(CUDA, args("-sc", '{"method": "medusa"}')),
        merged(CUDA, args("--spec-method", "medusa")),
    ],
    "LoRAKeys": [
        merged(connector("LMCache"), LORA),
        merged(connector("LMCacheMP", protocol="tcp"), LORA),
        merged(connector("LMCache"), args("--enable_lora")),
    ],
    "LoRADualBatch": [
        merged(merged(CUDA, LORA), DUAL_BATCH),
        merged(merged(merged(CUDA, LORA), DUAL_BATCH), {"mode": "Colocated"}),
    ],
}
FINE = [
    CPU,
    CUDA,
    merged(CUDA, STORE),
    merged(CUDA, {**STORE, "engine": {"version": "0.32.1+pd"}}),
    merged(CUDA, SLEEP),
    merged(CUDA, {"engine": {"args": ["--kv-cache-dtype", "nvfp4"]}}),
    merged(merged(CUDA, OLD), args(SPECULATOR)),
    merged(CUDA, args('--speculative-config={"method": "ngram", "num_speculative_tokens": 2}')),
    merged(CUDA, args("--speculative-config=no JSON")),
    merged(connector("Nixl"), args("--no-disable-hybrid-kv-cache-manager")),
    connector("LMCacheMP", protocol="tcp"),
    merged(connector("MooncakeStore"), {"rdma": {"pkeyIndex": 1}}),
    merged(connector("MooncakeStore"), LORA),
    merged(connector("Nixl"), LORA),
]


def broken(spec: dict[str, Any]) -> set[str]:
    names = {rule.name for rule in RULES}
    found = [problem.message for problem in problems(deployment(spec))]
    return {name for name in names if any(f"[{name}: " in message for message in found)}


def test_each_row_has_a_case() -> None:
    assert [rule.name for rule in RULES] == list(BROKEN)


@pytest.mark.parametrize(
    ("name", "spec"), [(name, spec) for name, specs in BROKEN.items() for spec in specs]
)
def test_rule_refuses(name: str, spec: dict[str, Any]) -> None:
    assert broken(spec) == {name}


@pytest.mark.parametrize("spec", FINE)
def test_what_works_is_not_refused(spec: dict[str, Any]) -> None:
    assert broken(spec) == set()


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: str(rule.name))
def test_message_names_the_field_and_the_source(rule: Any) -> None:
    (first, *_) = BROKEN[rule.name]
    (found,) = [p for p in problems(deployment(first)) if f"[{rule.name}: " in p.message]
    assert found.field.startswith(rule.field)
    assert found.reason == rule.reason
    assert rule.source in found.message
    assert found.field in found.message


def test_message_names_the_argument_that_breaks_the_rule() -> None:
    spec = merged(connector("LMCache"), of_a_tier("--seed=1", "--no-disable-hybrid-kv-cache-m"))
    (found,) = problems(deployment(spec))
    assert found.field == "spec.decode.args[1]"
    assert found.message.startswith(found.field)


def test_rules_of_the_transfer_are_silent_where_nothing_is_transferred() -> None:
    assert broken(merged(CUDA, {"mode": "Colocated", **THREE_TO_TWO})) == set()
    assert broken(merged(CUDA, {"mode": "Colocated", **args(SPECULATOR)})) == {"RemovedSpeculator"}


@pytest.mark.parametrize("version", ["0.32.0", "0.33.1", "0.33.0+cu130"])
def test_known_versions(version: str) -> None:
    assert version_warning(deployment(merged(CUDA, {"engine": {"version": version}}))) is None


@pytest.mark.parametrize("version", [None, "0.31.2", "0.34.0", "1.0.0"])
def test_unknown_versions_are_told_and_not_guessed(version: str | None) -> None:
    warning = version_warning(deployment(merged(CUDA, {"engine": {"version": version}})))
    assert warning is not None
    assert (version or "not set") in warning
    assert "0.32, 0.33" in warning


def test_document_is_fresh() -> None:
    text = (REPOSITORY / "docs" / "compatibility.md").read_text("utf-8")
    assert text == document.render(), "docs/compatibility.md is stale: run `make generate`"
