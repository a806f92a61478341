"""What a spec may not say, with the field and what is allowed in the message."""

from typing import Any

import pytest

from pd_operator.api.base import ApiModel
from pd_operator.api.deployment import ROOT_RULES, InvalidSpecError
from pd_operator.api.engine import OWNED_FLAGS
from pd_operator.api.options import ENGINE_FLAGS, TIER_FLAGS
from pd_operator.validate import Problem, problems
from tests.specs import CPU, CUDA, STORE, at, deployment, merged


def found(changes: dict[str, Any], base: dict[str, Any] = CUDA) -> tuple[Problem, ...]:
    return problems(deployment(merged(base, changes)))


def args(*arguments: str) -> tuple[Problem, ...]:
    return found({"engine": {"args": list(arguments)}})


def limits(**given: Any) -> dict[str, Any]:
    return {"decode": {"resources": {"limits": given}}}


@pytest.mark.parametrize("spec", [CUDA, CPU])
def test_valid_specs_have_no_problems(spec: dict[str, Any]) -> None:
    assert problems(deployment(spec)) == ()


CASES: list[tuple[dict[str, Any], str, str]] = [
    (at("rdma.resource", "hca"), "InvalidResource", "spec.rdma.resource"),
    (at("rdma.resource", "nvidia.com/gpu"), "InvalidResource", "spec.rdma.resource"),
    (at("rdma.resource", "a..b/hca"), "InvalidResource", "spec.rdma.resource"),
    (at("model.source", {"huggingFace": {"tokenSecret": {"name": "a", "key": ".."}}}),
     "InvalidModelSource", "spec.model.source.huggingFace.tokenSecret.key"),
    (limits(gpus="1"), "InvalidResource", "spec.decode.resources.limits[gpus]"),
    (limits(**{"nvidia.com/gpu": 4}), "ResourceSetByOperator",
     "spec.decode.resources.limits[nvidia.com/gpu]"),
    (limits(**{"rdma/hca_shared_devices_a": 1}), "ResourceSetByOperator",
     "spec.decode.resources.limits[rdma/hca_shared_devices_a]"),
    (limits(**{"example.com/device": "500m"}), "InvalidResource",
     "spec.decode.resources.limits[example.com/device]"),
    (limits(**{"hugepages-2Mi": "4Mi"}), "InvalidResource", "spec.decode.resources"),
    (at("prefill.resources", {"requests": {"cpu": 4}, "limits": {"cpu": "3500m"}}),
     "RequestAboveLimit", "spec.prefill.resources.requests[cpu]"),
    (at("prefill.resources", {"requests": {"memory": "2Gi"}, "limits": {"memory": "2G"}}),
     "RequestAboveLimit", "spec.prefill.resources.requests[memory]"),
    (at("prefill.resources", {"requests": {"example.com/device": 1}}),
     "RequestDiffersFromLimit", "spec.prefill.resources.requests[example.com/device]"),
    (at("decode.nodeSelector", {"a" * 64: "x"}), "InvalidNodeSelector",
     "spec.decode.nodeSelector"),
    (at("decode.tolerations", [{"key": "a b", "operator": "Exists"}]), "InvalidToleration",
     "spec.decode.tolerations[0].key"),
    (at("decode.tolerations", [{"operator": "Exists"}, {"value": "x"}]), "InvalidToleration",
     "spec.decode.tolerations[1].operator"),
    (at("decode.tolerations", [{"key": "a", "operator": "Exists", "value": "x"}]),
     "InvalidToleration", "spec.decode.tolerations[0].value"),
    (at("decode.tolerations", [{"key": "a", "tolerationSeconds": 5}]), "InvalidToleration",
     "spec.decode.tolerations[0].tolerationSeconds"),
    (merged(at("engine.version", "0.32.0"), STORE), "StoreNeedsVersion", "spec.engine.version"),
    (merged(at("engine.version", "0.32.0+cpu"), STORE), "StoreNeedsVersion",
     "spec.engine.version"),
    (at("mooncake.store", {"enabled": True, "segmentSize": 0}), "InvalidStoreSize",
     "spec.mooncake.store.segmentSize"),
    (limits(memory="9000000000000Pi"), "InvalidResource",
     "spec.decode.resources.limits[memory]"),
    (limits(**{"hugepages-2Mi": "9000000000000Pi", "cpu": 1}), "InvalidResource",
     "spec.decode.resources.limits[hugepages-2Mi]"),
    (at("mooncake.store", {"enabled": True, "segmentSize": "9000Pi"}), "InvalidStoreSize",
     "spec.mooncake.store.segmentSize"),
    (at("mooncake.store", {"enabled": True, "localBufferSize": "500m"}), "InvalidStoreSize",
     "spec.mooncake.store.localBufferSize"),
    (merged(limits(memory="5Gi"), STORE), "StoreNeedsMemory",
     "spec.decode.resources.limits[memory]"),
    ({"autoscaling": {"mode": "Auto", "slo": {"ttft": "1s"}, "prefill": {"max": 3}},
      "prefill": {"replicas": 4}}, "ReplicasOutOfBounds", "spec.prefill.replicas"),
    ({"autoscaling": {"mode": "Auto", "slo": {"ttft": "1s"}, "decode": {"min": 2, "max": 3}},
      "decode": {"replicas": 1}}, "ReplicasOutOfBounds", "spec.decode.replicas"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "reason", "field"), CASES)
def test_problem(changes: dict[str, Any], reason: str, field: str) -> None:
    (problem,) = found(changes)
    assert (problem.reason, problem.field) == (reason, field)
    assert field in problem.message
    assert "\n" not in problem.message


def test_all_problems_are_told_at_once() -> None:
    changes = {"engine": {"args": ["--port=1"]}, "rdma": {"resource": "hca"}}
    assert {problem.field for problem in found(changes)} == {
        "spec.engine.args[0]", "spec.rdma.resource",
    }  # fmt: skip


# Arguments.

DASHED = [flag for flag in OWNED_FLAGS if flag.startswith("--")]


@pytest.mark.parametrize("flag", OWNED_FLAGS)
@pytest.mark.parametrize("spelling", ["{}", "{}=1", "{} 1", "{}.key=1"])
def test_owned_flag_in_every_spelling(flag: str, spelling: str) -> None:
    (problem,) = args(spelling.format(flag))
    assert problem.field == "spec.engine.args[0]"
    assert flag in problem.message


@pytest.mark.parametrize("flag", [flag for flag in DASHED if "-" in flag[2:]])
def test_owned_flag_with_underscores(flag: str) -> None:
    underscored = "--" + flag[2:].replace("-", "_")
    (problem,) = args(f"{underscored}=1")
    assert flag in problem.message


@pytest.mark.parametrize("flag", DASHED)
def test_owned_flag_shortened(flag: str) -> None:
    (problem,) = args(f"{flag[:-1]}=1")
    assert problem.reason == "ArgumentNotAllowed"


@pytest.mark.parametrize("mode", ["external-lb", "hybrid_lb", "multi-port-external-lb", "hybrid"])
def test_other_ways_of_balancing_are_refused_with_the_reason(mode: str) -> None:
    (problem,) = found(at("engine.args", [f"--data-parallel-{mode}"]))
    assert problem.field == "spec.engine.args[0]"
    assert "the proxy balances between replicas" in problem.message


@pytest.mark.parametrize(
    "argument",
    ["--config=/x.yaml", "--data-parallel-rank=1", "--data_parallel_size_local=2", "-dpl=2",
     "--disable-log-stats", "--uds=/tmp/x", "--kv-offloading-size=4", "--nnodes=2", "-n2", "-r=1",
     "-pcp=2", "--help", "-h", "--", "meta-llama/Llama-3"],
)  # fmt: skip
def test_other_refused_arguments(argument: str) -> None:
    (problem,) = args("--enforce-eager", "--dtype=float16", argument)
    assert problem.field == "spec.engine.args[2]"


def test_flag_and_value_in_one_word() -> None:
    (problem,) = args("--max-model-len 4096")
    assert "write --max-model-len=VALUE" in problem.message


@pytest.mark.parametrize(
    "arguments",
    [
        ["--max-model-len", "4096"],
        ["--max_model_len=4096"],
        ["--lora-modules", "a=b", "c=d", "--enable-lora"],
        ["--hf-overrides.rope_scaling.factor=2"],
        ["--limit-mm-per-prompt", '{"image": 1}'],
        ["--seed", "-1"],
        ["-O3", "-cc.mode=3", "-q", "fp8", "-dcp=2"],
        ["--config-format=hf", "--revision-less=1", "--portable"],
        ["--chat-template={{ a -tp b --port }}"],
    ],
)
def test_arguments_of_the_user(arguments: list[str]) -> None:
    assert args(*arguments) == ()


# Resources.


def test_devices_depend_on_what_is_used() -> None:
    gpu, rdma = limits(**{"nvidia.com/gpu": 1}), limits(**{"rdma/other": 1})
    assert [each.reason for each in found(gpu, CPU)] == ["ResourceSetByOperator"]
    assert [each.reason for each in found(rdma, CPU)] == ["ResourceSetByOperator"]
    assert found(rdma, CUDA) == (), "another RDMA resource beside the one of spec.rdma"


@pytest.mark.parametrize(
    "resources",
    [
        {"requests": {"cpu": "500m", "memory": "1Gi"}, "limits": {"cpu": "0.5", "memory": "1Gi"}},
        {"limits": {"hugepages-1Gi": "2Gi", "memory": "1Gi", "ephemeral-storage": "1Ti"}},
        {"requests": {"example.com/x": "1000m"}, "limits": {"example.com/x": 1}},
    ],
)
def test_resources_of_the_user(resources: dict[str, Any]) -> None:
    assert found({"prefill": {"resources": resources}}) == ()


# Store.


@pytest.mark.parametrize("version", ["0.33.0", "0.33.1+cpu", "1.0.0", "0.32.0+pd", "0.32.0+cu.pd"])
def test_versions_with_which_the_store_works(version: str) -> None:
    assert found(merged(at("engine.version", version), STORE)) == ()


def test_store_needs_to_be_told_the_version() -> None:
    (problem,) = found(STORE, merged(CUDA, {"engine": {"version": None}}))
    assert problem.reason == "StoreNeedsVersion"
    assert "not set" in problem.message


def test_version_does_not_matter_without_the_store() -> None:
    assert found(at("engine.version", "0.32.0")) == ()


def test_store_takes_memory_for_each_rank() -> None:
    def tier(memory: str) -> dict[str, Any]:
        changes = {"decode": {"parallelism": {"tensor": 2}, **limits(memory=memory)["decode"]}}
        return merged(changes, STORE)

    assert [each.reason for each in found(tier("10Gi"))] == ["StoreNeedsMemory"]
    assert found(tier("11Gi")) == ()


# Autoscaling.


def test_replicas_are_free_where_nothing_scales_them() -> None:
    for mode in ("Off", "Advise"):
        policy = {"mode": mode, "slo": {"ttft": "1s"}}
        assert found({"autoscaling": policy, "prefill": {"replicas": 9}}) == ()


# The API server's CEL rules, once more.


def cpu_parallelism(tier: str, **given: int) -> dict[str, Any]:
    return merged({"engine": {"device": "cpu"}, "kvTransfer": {"protocol": "tcp"}},
                  at(f"{tier}.parallelism", given))  # fmt: skip


NEGATIVE = at("prefill.resources.limits", {"memory": -1})


def draft(**fields: Any) -> dict[str, Any]:
    return at("engine.speculative", {"numSpeculativeTokens": 2, **fields})


def adapter(source: dict[str, Any]) -> dict[str, Any]:
    return at("model.adapters", [{"name": "a", "source": source}])


def option(section: str, field: str) -> dict[str, Any]:
    values = {"dtype": "float16", "kvCacheDtype": "fp8", "quantization": "fp8",
              "gpuMemoryUtilization": 0.5, "speculative": draft(method="NGram")["engine"][
                  "speculative"]}  # fmt: skip
    flag = field in ("trustRemoteCode", "enforceEager", "prefixCaching")
    return at(f"{section}.{field}", values.get(field, flag or 16))


BROKEN: dict[str, dict[str, Any]] = {
    "source must set exactly one": at("model.source", {}),
    "max must be at least min": at("autoscaling.decode", {"min": 2}),
    "slo.ttft or slo.tpot must be set": at("autoscaling.mode", "Advise"),
    "rdma.resource and rdma.count are not": at("rdma", {"count": 1, "resources": {"a.b/c": 1}}),
    "keys of rdma.resources must be": at("rdma.resources", {"a b": 1}),
    "rdma.fallback must be Never": at("rdma", {"fallback": "TCP", "preflight": {"enabled": False}}),
    "rdma.networks is not allowed": at("rdma", {"networks": ["a"], "hostNetwork": True}),
    "rdma.pkeyIndex is not allowed": {
        "rdma": {"pkeyIndex": 1}, "kvTransfer": {"connector": "Nixl"},
    },
    "network.monitoringNamespaces is only": at(
        "network", {"isolation": "Disabled", "monitoringNamespaces": ["monitoring"]}
    ),
    "rdma is only allowed where": {"rdma": {"count": 1}, "kvTransfer": {"protocol": "tcp"}},
    "kvTransfer.protocol must be tcp": at("engine.device", "cpu"),
    "must divide one another": {
        "prefill": {"parallelism": {"tensor": 2}}, "decode": {"parallelism": {"tensor": 3}},
    },
    "prefill.parallelism.pipeline and": cpu_parallelism("prefill", pipeline=2),
    "decode.parallelism.pipeline and": cpu_parallelism("decode", pipeline=2),
    "expert.enabled must be true where": at("decode.parallelism", {
        "data": 2, "expert": {"eplb": {"enabled": True}},
    }),
    "expert.all2allBackend must be": at("decode.parallelism", {
        "data": 2, "expert": {"enabled": True, "dbo": {"enabled": True}},
    }),
    "autoscaling.mode must not be Auto where placement": merged(
        at("placement.gang", {"scheduler": "Kueue", "queue": "q"}),
        at("autoscaling", {"mode": "Auto", "slo": {"ttft": "1s"}}),
    ),
    "gang.queue is not allowed where": at(
        "placement.gang", {"scheduler": "Coscheduling", "queue": "q"}
    ),
    "gang.schedulerName is only": at(
        "placement.gang", {"scheduler": "Volcano", "schedulerName": "own"}
    ),
    "gang.queue must name a LocalQueue": at("placement.gang.scheduler", "Kueue"),
    "nodes must divide": at("decode.parallelism", {"data": 3, "nodes": 2}),
    "tensor x data must be more than 1": at("decode.parallelism.expert.enabled", True),
    "operator must be Exists where key is empty": at("prefill.tolerations", [{"value": "x"}]),
    "requests must not be negative": at("prefill.resources.requests", {"memory": -1}),
    "limits must not be negative": at("prefill.resources.limits", {"memory": -1}),
    "keys of requests must be names": at("prefill.resources.requests", {"a b": 1}),
    "keys of limits must be names": at("prefill.resources.limits", {"a b": 1}),
    "keys of nodeSelector must be names": at("prefill.nodeSelector", {"a b": "c"}),
    "segmentSize must be more than zero": at(
        "mooncake.store", {"enabled": True, "segmentSize": 0}
    ),
    "localBufferSize must be more than zero": at(
        "mooncake.store", {"enabled": True, "localBufferSize": 0}
    ),
    "symmetric is not allowed with connector Nixl": at(
        "kvTransfer", {"connector": "Nixl", "symmetric": True}
    ),
    "abortTimeout is only allowed with": at(
        "kvTransfer", {"connector": "MooncakeStore", "abortTimeout": "1m"}
    ),
    "workers is only allowed with": at("kvTransfer", {"connector": "LMCache", "workers": 1}),
    "protocol must be tcp with connector LMCacheMP": at("kvTransfer.connector", "LMCacheMP"),
    "kvTransfer.connector LMCache is not allowed": {
        "engine": {"device": "cpu"}, "kvTransfer": {"connector": "LMCache", "protocol": "tcp"},
    },
    "lmcache is only allowed with": {"lmcache": {"chunkSize": 256}},
    "mooncake.store.enabled must be true": {
        "kvTransfer": {"connector": "LMCache"}, "mooncake": {"store": {"enabled": False}},
    },
    "model.id and engine.image are required": at("engine.image", None),
    "pool is only allowed with mode Standalone": at("mooncake.store.pool", {"replicas": 2}),
    "port and metadataPort must differ": at("mooncake.master", {"port": 8080}),
    "valueFrom must set exactly one": at("engine.env", [{"name": "A", "valueFrom": {}}]),
    "must not set both value and valueFrom": at("engine.env", [
        {"name": "A", "value": "", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]),
    "env must not set a variable": at("prefill.env", [{"name": "VLLM_HOST_IP"}]),
    "a volume must set exactly one": at("prefill.volumes", [{"name": "a"}]),
    "volumes must not use a name": at("decode.volumes", [{"name": "tmp", "emptyDir": {}}]),
    "args of a tier must not contain a flag that the operator": at("prefill.args", ["--port=1"]),
    "args of a tier must not contain a flag on which": at("decode.args", ["--dtype=half"]),
    "each of volumeMounts must name": at(
        "decode.volumeMounts", [{"name": "a", "mountPath": "/a"}]
    ),
    **{f"args must not contain {flag}:": at("engine.args", [flag]) for flag in OWNED_FLAGS},
    **{f"args must not contain {flags[0]} where {field} is": merged(
        at("engine.args", [flags[0]]), option("engine", field)
    ) for field, flags in ENGINE_FLAGS.items()},
    **{f"args must not contain {flags[0]} where prefill.": merged(
        at("engine.args", [flags[0]]), option("decode", field)
    ) for field, flags in TIER_FLAGS.items()},
    **{f"args of a tier must not contain {flags[0]} where": merged(
        at("decode.args", [flags[0]]), option("decode", field)
    ) for field, flags in TIER_FLAGS.items()},
    **{f"timeouts.{field} must be from": at(f"proxy.timeouts.{field}", "2h") for field in (
        "connect", "bootstrap", "prefill", "kvWait", "firstToken", "betweenTokens", "drain")},
    "queue.timeout must be from": at("proxy.queue.timeout", "2h"),
    "speculative.model must be set": draft(method="Eagle3"),
    "where method is NGram: nothing": draft(method="NGram", model="org/a"),
    "speculative.revision and quantization": draft(method="MTP", revision="a"),
    "promptLookupMax and promptLookupMin are": draft(method="MTP", promptLookupMax=2),
    "promptLookupMin must be at most": draft(
        method="NGram", promptLookupMax=2, promptLookupMin=3
    ),
    "draftTensorParallelSize must be 1": draft(method="MTP", draftTensorParallelSize=2),
    "model must be an absolute folder": merged(
        draft(method="Eagle", model="org/a"), at("model.source", {"pvc": {"claimName": "c"}})
    ),
    "source of an adapter must": adapter({}),
    "model.adapters[].name must differ": at(
        "model.adapters", [{"name": CUDA["model"]["id"], "source": {"local": {"path": "/a"}}}]
    ),
    "model.maxLoraRank and model.maxLoras": at("model.maxLoras", 2),
    "model.adapters[].source.huggingFace is only": merged(
        adapter({"huggingFace": {"id": "a"}}), at("model.source.local.path", "/m")
    ),
    "model.adapters[].source.huggingFace.revision": adapter(
        {"huggingFace": {"id": "a", "revision": "b"}}
    ),
    "engine.args must not contain --enable-lora": merged(
        adapter({"local": {"path": "/a"}}), at("engine.args", ["--max-loras=2"])
    ),
    "model.adapters is not allowed with": merged(
        adapter({"local": {"path": "/a"}}), at("kvTransfer.connector", "LMCache")
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    ("field", "value", "allowed"),
    [
        ("timeouts.connect", "9ms", "from 10ms to 1h"),
        ("timeouts.drain", "61m", "from 10ms to 1h"),
        ("queue.timeout", "61m", "from 10ms to 1h"),
        ("limits.bodySize", "65Mi", "from 1Ki to 64Mi"),
        ("limits.bodySize", "1k", "from 1Ki to 64Mi"),
        ("limits.bodySize", "2048.5", "from 1Ki to 64Mi"),
        ("limits.headerSize", "2Mi", "from 1Ki to 1Mi"),
    ],
)
def test_proxys_deadlines_and_sizes(field: str, value: str, allowed: str) -> None:
    (problem,) = found(at(f"proxy.{field}", value))
    assert problem.field == f"spec.proxy.{field}"
    assert allowed in problem.message


MESSAGES = sorted(rule.message for model in ApiModel.__subclasses__() for rule in model.cel)


def refused(changes: dict[str, Any]) -> bool:
    try:
        return found(changes) != ()
    except InvalidSpecError:
        return True


@pytest.mark.parametrize("message", MESSAGES)
def test_every_cel_rule_is_checked_here_too(message: str) -> None:
    (changes,) = [spec for part, spec in BROKEN.items() if part in message]
    assert refused(changes)
    assert not refused({})


@pytest.mark.parametrize("name", ["a" * 34, "1st", "a.b", "Tiny", "a-", ""])
def test_names(name: str) -> None:
    assert len(ROOT_RULES) == 2
    (problem,) = problems(deployment(CUDA, name=name))
    assert (problem.reason, problem.field) == ("InvalidName", "metadata.name")
