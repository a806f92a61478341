"""What the API server refuses at apply: each message names the field and what is allowed."""

import copy
from collections.abc import Iterator
from typing import Any

import pytest

from pd_operator.api.engine import OWNED_FLAGS
from tests.api.conftest import Submit

pytestmark = pytest.mark.cluster

ABSENT = object()
LONG = "a" * 600
VALID: dict[str, Any] = {
    "apiVersion": "pd-operator.io/v1alpha1",
    "kind": "PDDeployment",
    "metadata": {"name": "ok"},
    "spec": {
        "model": {"id": "org/model"},
        "engine": {"image": "registry.example/vllm:1"},
        "kvTransfer": {"protocol": "rdma"},
    },
}
DURATION = "^[1-9][0-9]{0,8}(ms|s|m|h)$"
QUANTITY = "(m|k|M|G|T|P|Ki|Mi|Gi|Ti|Pi)?$"

CASES: list[tuple[str, Any, tuple[str, ...]]] = [
    # Names: pods, Services and label values are derived from them.
    ("metadata.name", "a" * 34, ("metadata.name", "at most 33 characters")),
    ("metadata.name", "1st", ("metadata.name", "start with a letter")),
    ("metadata.name", "a.b", ("metadata.name", "only a-z, 0-9 and -")),
    ("metadata.name", "Tiny", ("metadata.name", "lower case")),
    ("spec", ABSENT, ("spec", "Required")),
    ("spec.modle", {}, ('unknown field "spec.modle"',)),
    ("spec.engine.img", "x", ('unknown field "spec.engine.img"',)),
    ("spec.prefill.replica", 1, ('unknown field "spec.prefill.replica"',)),
    # Model.
    ("spec.model", ABSENT, ("spec", "model.id and engine.image are required")),
    ("spec.model", "org/model", ("spec.model", "must be of type object")),
    ("spec.model.id", ABSENT, ("spec", "model.id and engine.image are required")),
    ("spec.model.id", "", ("spec.model.id", "at least 1 chars long")),
    ("spec.model.id", "a/b/c", ("spec.model.id", "should match")),
    ("spec.model.id", "--model", ("spec.model.id", "should match")),
    ("spec.model.id", "org/my model", ("spec.model.id", "should match")),
    ("spec.model.id", LONG, ("spec.model.id", "may not be more than 256")),
    ("spec.model.id", 7, ("spec.model.id", "must be of type string")),
    ("spec.model.servedName", "-x", ("spec.model.servedName", "should match")),
    ("spec.model.servedName", LONG, ("spec.model.servedName", "may not be more than 256")),
    ("spec.model.source", {}, ("spec.model.source", "exactly one of huggingFace, pvc, local")),
    (
        "spec.model.source",
        {"huggingFace": {}, "local": {"path": "/m"}},
        ("spec.model.source", "exactly one of huggingFace, pvc, local"),
    ),
    (
        "spec.model.source",
        {"pvc": {"claimName": "c"}, "local": {"path": "/m"}},
        ("spec.model.source", "exactly one of huggingFace, pvc, local"),
    ),
    (
        "spec.model.source",
        {"oci": {"image": "a"}, "local": {"path": "/m"}},
        ("spec.model.source", "exactly one of huggingFace, pvc, local, oci"),
    ),
    ("spec.model.source.oci", {}, ("spec.model.source.oci.image", "Required")),
    (
        "spec.model.source.oci",
        {"image": "a", "pullPolicy": "Sometimes"},
        ("spec.model.source.oci.pullPolicy", '"Always", "IfNotPresent", "Never"'),
    ),
    (
        "spec.model.source.oci",
        {"image": "a", "path": "../x"},
        ("spec.model.source.oci.path", "should match"),
    ),
    (
        "spec.model.source.huggingFace.cache",
        {},
        ("spec.model.source.huggingFace.cache.claimName", "Required"),
    ),
    (
        "spec.model.source.huggingFace.cache",
        {"claimName": "hub", "path": "../a"},
        ("spec.model.source.huggingFace.cache.path", "should match"),
    ),
    (
        "spec.model.source.huggingFace.cache",
        {"claimName": "Hub_1"},
        ("spec.model.source.huggingFace.cache.claimName", "should match"),
    ),
    (
        "spec.model.source.huggingFace.cache",
        {"claimName": "hub", "ignore": ["a b"]},
        ("spec.model.source.huggingFace.cache.ignore[0]", "should match"),
    ),
    (
        "spec.model.source.huggingFace.cache",
        {"claimName": "hub", "ignore": ["a"] * 17},
        ("spec.model.source.huggingFace.cache.ignore", "at most 16"),
    ),
    ("spec.model.source.s3", {}, ('unknown field "spec.model.source.s3"',)),
    ("spec.model.source.pvc", {}, ("spec.model.source.pvc.claimName", "Required")),
    (
        "spec.model.source.pvc.claimName",
        "My_Claim",
        ("spec.model.source.pvc.claimName", "should match"),
    ),
    (
        "spec.model.source.pvc",
        {"claimName": "c", "path": "/absolute"},
        ("spec.model.source.pvc.path", "should match"),
    ),
    (
        "spec.model.source.pvc",
        {"claimName": "c", "path": "a/../../b"},
        ("spec.model.source.pvc.path", "should match"),
    ),
    ("spec.model.source.local.path", "models", ("spec.model.source.local.path", "should match")),
    ("spec.model.source.local.path", "/a/../b", ("spec.model.source.local.path", "should match")),
    (
        "spec.model.source.huggingFace.revision",
        "a b",
        ("spec.model.source.huggingFace.revision", "should match"),
    ),
    (
        "spec.model.source.huggingFace.tokenSecret",
        {},
        ("spec.model.source.huggingFace.tokenSecret.name", "Required"),
    ),
    (
        "spec.model.source.huggingFace.tokenSecret",
        {"name": "hf", "key": "a/b"},
        ("spec.model.source.huggingFace.tokenSecret.key", "should match"),
    ),
    # Engine.
    ("spec.engine", ABSENT, ("spec", "model.id and engine.image are required")),
    ("spec.engine.image", ABSENT, ("spec", "model.id and engine.image are required")),
    ("spec.engine.image", "has space", ("spec.engine.image", "should match")),
    ("spec.engine.version", "latest", ("spec.engine.version", "should match")),
    ("spec.engine.version", "0.33", ("spec.engine.version", "should match")),
    ("spec.engine.version", 0.33, ("spec.engine.version", "must be of type string")),
    ("spec.engine.device", "gpu", ("spec.engine.device", '"cuda", "cpu"')),
    ("spec.engine.device", "cpu", ("kvTransfer.protocol", "must be tcp", "engine.device is cpu")),
    ("spec.engine.args", "--x", ("spec.engine.args", "must be of type array")),
    ("spec.engine.args", [""], ("spec.engine.args[0]", "at least 1 chars long")),
    ("spec.engine.args", [1], ("spec.engine.args[0]", "must be of type string")),
    ("spec.engine.args", ["--x"] * 65, ("spec.engine.args", "must have at most 64 items")),
    ("spec.engine.args", ["a" * 1025], ("spec.engine.args[0]", "may not be more than 1024")),
    # KV transfer and RDMA.
    ("spec.kvTransfer.protocol", "auto", ("spec.kvTransfer.protocol", '"rdma", "tcp"')),
    ("spec.kvTransfer.connector", "P2P", ("spec.kvTransfer.connector", '"Mooncake", "Nixl"')),
    (
        "spec",
        VALID["spec"] | {"kvTransfer": {"protocol": "tcp"}, "rdma": {}},
        ("rdma is only allowed where kvTransfer.protocol is rdma",),
    ),
    ("spec.rdma.count", 0, ("spec.rdma.count", "greater than or equal to 1")),
    ("spec.rdma.count", 65, ("spec.rdma.count", "less than or equal to 64")),
    ("spec.rdma.resource", "a b", ("spec.rdma.resource", "should match")),
    ("spec.rdma.devices", ["mlx5_0,mlx5_1"], ("spec.rdma.devices[0]", "should match")),
    ("spec.rdma.devices", ["mlx5"] * 17, ("spec.rdma.devices", "must have at most 16 items")),
    # Tiers.
    ("spec.prefill.replicas", 0, ("spec.prefill.replicas", "greater than or equal to 1")),
    ("spec.prefill.replicas", 1001, ("spec.prefill.replicas", "less than or equal to 1000")),
    ("spec.decode.replicas", "2", ("spec.decode.replicas", "must be of type integer")),
    ("spec.decode.replicas", 1.5, ("spec.decode.replicas", "must be of type integer")),
    (
        "spec.decode.parallelism.tensor",
        0,
        ("spec.decode.parallelism.tensor", "greater than or equal to 1"),
    ),
    (
        "spec.prefill.parallelism.tensor",
        128,
        ("spec.prefill.parallelism.tensor", "less than or equal to 64"),
    ),
    (
        "spec",
        VALID["spec"]
        | {"prefill": {"parallelism": {"tensor": 4}}, "decode": {"parallelism": {"tensor": 6}}},
        ("prefill.parallelism.tensor and decode.parallelism.tensor must divide one another",),
    ),
    (
        "spec.prefill.resources.limits",
        {"memory": "3 GB"},
        ("spec.prefill.resources.limits.memory", QUANTITY),
    ),
    (
        "spec.decode.resources.requests",
        {"cpu": "-1"},
        ("spec.decode.resources.requests.cpu", QUANTITY),
    ),
    (
        "spec.decode.resources.requests",
        {"cpu": -1},
        ("spec.decode.resources", "requests must not be negative"),
    ),
    (
        "spec.decode.resources.limits",
        {"cpu": -1},
        ("spec.decode.resources", "limits must not be negative"),
    ),
    (
        "spec.prefill.resources.limits",
        {f"r{i}": "1" for i in range(17)},
        ("spec.prefill.resources.limits", "at most 16"),
    ),
    (
        "spec.prefill.nodeSelector",
        {"zone": "a b"},
        ("spec.prefill.nodeSelector.zone", "should match"),
    ),
    (
        "spec.decode.nodeSelector",
        {"a b": "c"},
        ("spec.decode", "keys of nodeSelector must be names of labels like kubernetes.io/arch"),
    ),
    (
        "spec.decode.resources.limits",
        {"/cpu": "1"},
        ("spec.decode.resources", "keys of limits must be names like cpu, memory"),
    ),
    (
        "spec.decode.resources.requests",
        {"a" * 129: "1"},
        ("spec.decode.resources", "keys of requests must be names like cpu, memory"),
    ),
    (
        "spec.prefill.tolerations",
        [{"operator": "Equals", "key": "a"}],
        ("spec.prefill.tolerations[0].operator", '"Exists", "Equal"'),
    ),
    (
        "spec.prefill.tolerations",
        [{"key": "a", "effect": "Evict"}],
        ("spec.prefill.tolerations[0].effect", '"NoSchedule", "PreferNoSchedule", "NoExecute"'),
    ),
    (
        "spec.decode.tolerations",
        [{"operator": "Equal", "value": "x"}],
        ("spec.decode.tolerations[0]", "operator must be Exists where key is empty"),
    ),
    # Proxy and store.
    ("spec.proxy.replicas", 0, ("spec.proxy.replicas", "greater than or equal to 1")),
    ("spec.proxy.replicas", 101, ("spec.proxy.replicas", "less than or equal to 100")),
    ("spec.proxy.image", "", ("spec.proxy.image", "at least 1 chars long")),
    ("spec.mooncake.image", "a b", ("spec.mooncake.image", "should match")),
    ("spec.mooncake.store.enabled", "yes", ("spec.mooncake.store.enabled", "type boolean")),
    ("spec.mooncake.store.segmentSize", "4 Gi", ("spec.mooncake.store.segmentSize", QUANTITY)),
    (
        "spec.mooncake.store.localBufferSize",
        "1GiB",
        ("spec.mooncake.store.localBufferSize", QUANTITY),
    ),
    (
        "spec.mooncake.store.segmentSize",
        -1,
        ("spec.mooncake.store", "segmentSize must be more than zero"),
    ),
    # Autoscaling.
    ("spec.autoscaling.mode", "On", ("spec.autoscaling.mode", '"Off", "Advise", "Auto"')),
    (
        "spec.autoscaling.mode",
        "Auto",
        ("spec.autoscaling", "slo.ttft or slo.tpot must be set where mode is Advise or Auto"),
    ),
    (
        "spec.autoscaling",
        {"mode": "Advise", "slo": {}},
        ("spec.autoscaling", "slo.ttft or slo.tpot must be set where mode is Advise or Auto"),
    ),
    ("spec.autoscaling.slo.ttft", "1", ("spec.autoscaling.slo.ttft", DURATION)),
    ("spec.autoscaling.slo.ttft", 1, ("spec.autoscaling.slo.ttft", "must be of type string")),
    ("spec.autoscaling.slo.tpot", "0ms", ("spec.autoscaling.slo.tpot", DURATION)),
    ("spec.autoscaling.slo.tpot", "1.5s", ("spec.autoscaling.slo.tpot", DURATION)),
    (
        "spec.autoscaling.scaleDown.stabilizationWindow",
        "5 min",
        ("spec.autoscaling.scaleDown.stabilizationWindow", DURATION),
    ),
    (
        "spec.autoscaling.prefill",
        {"min": 3, "max": 2},
        ("spec.autoscaling.prefill", "max must be at least min"),
    ),
    ("spec.autoscaling.decode", {"min": 2}, ("spec.autoscaling.decode", "at least min")),
    (
        "spec.autoscaling.decode.min",
        0,
        ("spec.autoscaling.decode.min", "greater than or equal to 1"),
    ),
    (
        "spec.autoscaling.decode.max",
        1001,
        ("spec.autoscaling.decode.max", "less than or equal to 1000"),
    ),
]


def owned_flags() -> Iterator[tuple[str, Any, tuple[str, ...]]]:
    for flag in OWNED_FLAGS:
        message = f"args must not contain {flag}: the operator sets it"
        yield "spec.engine.args", ["--dtype=half", flag, "x"], ("spec.engine", message)
    # vLLM reads these as the same flags.
    for spelling, flag in (
        ("--port=1", "--port"),
        ("-tp=2", "-tp"),
        ("--tensor_parallel_size=2", "--tensor-parallel-size"),
        ("--served_model_name", "--served-model-name"),
        ("--kv-transfer-config.kv_role", "--kv-transfer-config"),
        ('--kv_transfer_config={"kv_role":"kv_both"}', "--kv-transfer-config"),
    ):
        message = f"args must not contain {flag}: the operator sets it"
        yield "spec.engine.args", [spelling], ("spec.engine", message)


def changed(path: str, value: Any) -> dict[str, Any]:
    manifest = copy.deepcopy(VALID)
    *parents, last = path.split(".")
    node = manifest
    for key in parents:
        node = node.setdefault(key, {})
    if value is ABSENT:
        del node[last]
    else:
        node[last] = value
    return manifest


def case_id(case: tuple[str, Any, tuple[str, ...]]) -> str:
    value = "absent" if case[1] is ABSENT else str(case[1])
    return f"{case[0]}={value[:40]}"


def test_the_spec_that_the_cases_change_is_accepted(submit: Submit) -> None:
    assert submit(VALID) == ""


@pytest.mark.parametrize("case", [*CASES, *owned_flags()], ids=case_id)
def test_refused(submit: Submit, case: tuple[str, Any, tuple[str, ...]]) -> None:
    path, value, expected = case
    message = submit(changed(path, value))
    assert message, "accepted"
    assert [part for part in expected if part not in message] == [], message
