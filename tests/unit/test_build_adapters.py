"""LoRA adapters in both tiers, and at the proxy."""

import json
from typing import Any

import pytest

from pd_operator.build.pairing import pairing
from pd_operator.validate import problems
from pd_shared import labels
from tests.specs import CUDA, at, children, deployment, engine_pod, merged, part, tier

TIERS = (labels.PREFILLER, labels.DECODER)
CACHE = at("model.source.huggingFace.cache.claimName", "hub")


def adapters(*sources: dict[str, Any], **model: Any) -> dict[str, Any]:
    """Adapters named a0, a1, …"""
    given = [{"name": f"a{i}", "source": source} for i, source in enumerate(sources)]
    return merged(CUDA, {"model": {"adapters": given, **model}})


def modules(spec: dict[str, Any]) -> list[str]:
    """The values of --lora-modules, which both tiers have alike."""
    found = []
    for component in TIERS:
        args = part(spec, component).args
        assert "--enable-lora" in args
        start = args.index("--lora-modules") + 1
        end = next(i for i, arg in enumerate(args) if i >= start and arg.startswith("--"))
        found.append(list(args[start:end]))
    assert found[0] == found[1]
    return found[0]


LOCAL = {"local": {"path": "/adapters/a"}}
PVC = {"pvc": {"claimName": "claim", "path": "x/y"}}
HUB = {"huggingFace": {"id": "org/lora"}}


def test_nothing_without_adapters() -> None:
    assert not [arg for arg in part(CUDA, labels.DECODER).args if "lora" in arg]


@pytest.mark.parametrize(
    ("source", "path"),
    [
        (LOCAL, "/adapters/a"),
        (PVC, "/mnt/adapters/0/x/y"),
        ({"pvc": {"claimName": "claim"}}, "/mnt/adapters/0"),
        (HUB, "org/lora"),
    ],
    ids=str,
)
def test_where_an_adapter_is(source: dict[str, Any], path: str) -> None:
    assert modules(adapters(source)) == [f"a0={path}"]


def test_each_claim_is_mounted_once_and_read_only() -> None:
    other = {"pvc": {"claimName": "other"}}
    spec = adapters(PVC, other, {"pvc": {"claimName": "claim", "path": "z"}})
    assert modules(spec) == [
        "a0=/mnt/adapters/0/x/y", "a1=/mnt/adapters/1", "a2=/mnt/adapters/0/z",
    ]  # fmt: skip
    for component in TIERS:
        pod = engine_pod(spec, component)
        claims = {
            v["name"]: v["persistentVolumeClaim"]
            for v in pod["volumes"]
            if v["name"].startswith("adapters")
        }
        assert claims == {
            "adapters-0": {"claimName": "claim", "readOnly": True},
            "adapters-1": {"claimName": "other", "readOnly": True},
        }
        mounts = [m for m in pod["containers"][0]["volumeMounts"] if m["name"] in claims]
        assert [m["mountPath"] for m in mounts] == ["/mnt/adapters/0", "/mnt/adapters/1"]
        assert all(m["readOnly"] for m in mounts)


def test_the_models_own_claim_is_not_mounted_again() -> None:
    spec = merged(adapters(PVC), at("model.source.pvc.claimName", "claim"))
    assert modules(spec) == ["a0=/mnt/model/x/y"]
    volumes = engine_pod(spec, labels.DECODER)["volumes"]
    assert [v for v in volumes if v["name"].startswith("adapters")] == []


def test_the_cache_has_the_adapters_too() -> None:
    spec = merged(adapters({"huggingFace": {"id": "org/lora", "revision": "v1"}}), CACHE)
    (module,) = modules(spec)
    link = module.removeprefix("a0=")
    (job,) = (m for (kind, _), m in children(deployment(spec)).items() if kind == "Job")
    args = job["spec"]["template"]["spec"]["containers"][0]["args"]
    assert f"--repository={link}=org/lora@v1" in args
    assert f"--link={link}" in engine_pod(spec, labels.DECODER)["initContainers"][0]["command"]
    assert part(spec, labels.DECODER).args[0] == part(merged(CUDA, CACHE), labels.DECODER).args[0]


def test_sizes() -> None:
    args = part(adapters(LOCAL, PVC), labels.DECODER).args
    assert "--max-loras=2" in args
    assert not [arg for arg in args if arg.startswith("--max-lora-rank")]
    args = part(adapters(LOCAL, PVC, maxLoras=1, maxLoraRank=64), labels.PREFILLER).args
    assert {"--max-loras=1", "--max-lora-rank=64"} <= set(args)


@pytest.mark.parametrize(
    "other",
    [
        adapters(LOCAL, PVC), adapters(PVC), adapters(LOCAL, maxLoraRank=64), CUDA,
        adapters({"pvc": {"claimName": "c2", "path": "x/y"}}),
    ],
    ids=str,
)  # fmt: skip
def test_another_list_is_another_pairing(other: dict[str, Any]) -> None:
    def of(spec: dict[str, Any]) -> str:
        found = {pairing(part(spec, component)) for component in TIERS}
        assert len(found) == 1
        return found.pop()

    assert of(adapters(LOCAL)) == of(adapters(LOCAL, maxLoras=1))
    assert of(other) != of(adapters(LOCAL))
    assert of(adapters(PVC)) != of(adapters({"pvc": {"claimName": "c2", "path": "x/y"}}))


def test_the_proxy_serves_their_names() -> None:
    found = children(deployment(adapters(LOCAL, PVC, servedName="m")))
    config = json.loads(found["ConfigMap", "tiny-proxy"]["data"]["config.json"])
    assert config["servedNames"] == ["m", "a0", "a1"]


def test_colocated_engines_have_them_too() -> None:
    spec = merged(adapters(LOCAL), {"mode": "Colocated"})
    assert tier(spec, labels.DECODER).colocated
    assert "--enable-lora" in part(spec, labels.DECODER).args


# What is refused.


def twice(**first: Any) -> dict[str, Any]:
    spec = adapters(LOCAL, PVC)
    spec["model"]["adapters"][1] |= first
    return spec


@pytest.mark.parametrize(
    ("spec", "field", "words"),
    [
        (twice(name="a0"), "[1].name", "differ from the others"),
        (twice(name="org/model"), "[1].name", "the model's name"),
        (twice(source={}), "[1].source", "exactly one of"),
        (twice(source={**LOCAL, **PVC}), "[1].source", "exactly one of"),
        (
            merged(adapters(HUB), at("model.source.local.path", "/m")),
            "[0].source.huggingFace",
            "do not reach the hub",
        ),
        (
            adapters({"huggingFace": {"id": "a", "revision": "b"}}),
            "[0].source.huggingFace.revision",
            "only allowed with spec.model.source.huggingFace.cache",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_wrong_adapters(spec: dict[str, Any], field: str, words: str) -> None:
    (problem,) = problems(deployment(spec))
    assert problem.reason == "InvalidAdapter"
    assert problem.field == f"spec.model.adapters{field}"
    assert words in problem.message


@pytest.mark.parametrize("field", ["maxLoras", "maxLoraRank"])
def test_sizes_need_adapters(field: str) -> None:
    (problem,) = problems(deployment(merged(CUDA, {"model": {field: 1}})))
    assert (problem.reason, problem.field) == ("InvalidAdapter", f"spec.model.{field}")


@pytest.mark.parametrize("where", ["engine", "prefill", "decode"])
def test_flags_are_not_given_twice(where: str) -> None:
    found = problems(deployment(merged(adapters(LOCAL), {where: {"args": ["--max-loras=3"]}})))
    assert [problem.field for problem in found] == [f"spec.{where}.args[0]"]
    assert found[0].reason == "OptionGivenTwice"
