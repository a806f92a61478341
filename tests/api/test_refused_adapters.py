"""What the API server refuses of `spec.model.adapters`, and what it takes."""

from typing import Any

import pytest

from tests.api.conftest import Submit
from tests.specs import at, merged

pytestmark = pytest.mark.cluster

LOCAL = {"local": {"path": "/a"}}
HUB = {"huggingFace": {"id": "org/lora"}}
REVISION = {"huggingFace": {"id": "org/lora", "revision": "v1"}}
CACHE = at("model.source.huggingFace.cache.claimName", "hub")


def manifest(spec: dict[str, Any]) -> dict[str, Any]:
    base = {"model": {"id": "org/model"}, "engine": {"image": "vllm:1"}}
    return {
        "apiVersion": "pd-operator.io/v1alpha1",
        "kind": "PDDeployment",
        "metadata": {"name": "ok"},
        "spec": merged(base, spec),
    }


def adapters(*sources: dict[str, Any], names: str = "abcdefghijklmnopqrst") -> dict[str, Any]:
    given = [{"name": name, "source": source} for name, source in zip(names, sources, strict=False)]
    return at("model.adapters", given)


ONE = adapters(LOCAL)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (adapters({}), "source of an adapter must set exactly one of"),
        (adapters({**LOCAL, **HUB}), "source of an adapter must set exactly one of"),
        (adapters({"local": {"path": "a"}}), "spec.model.adapters[0].source.local.path"),
        (adapters({"pvc": {}}), "spec.model.adapters[0].source.pvc.claimName"),
        (adapters({"pvc": {"claimName": "c", "path": "../a"}}), "source.pvc.path"),
        (adapters({"huggingFace": {"id": "a/b/c"}}), "source.huggingFace.id"),
        (adapters({"oci": {"image": "a"}}), "unknown field"),
        (adapters(LOCAL, LOCAL, names="aa"), "Duplicate value"),
        (adapters(LOCAL, names="="), "spec.model.adapters[0].name"),
        (adapters(*[LOCAL] * 17), "at most 16"),
        (at("model.adapters", [{"name": "org/model", "source": LOCAL}]), "must differ from"),
        (
            merged(at("model.adapters", [{"name": "m", "source": LOCAL}]),
                   at("model.servedName", "m")),
            "must differ from",
        ),
        (at("model.maxLoraRank", 16), "only allowed where model.adapters is set"),
        (at("model.maxLoras", 2), "only allowed where model.adapters is set"),
        (merged(ONE, at("model.maxLoraRank", 17)), "spec.model.maxLoraRank"),
        (merged(ONE, at("model.maxLoras", 0)), "spec.model.maxLoras"),
        (
            merged(adapters(HUB), at("model.source.local.path", "/m")),
            "only allowed where model.source is huggingFace",
        ),
        (adapters(REVISION), "only allowed with model.source.huggingFace.cache"),
        (merged(ONE, at("engine.args", ["--lora_modules", "x=y"])), "engine.args must not contain"),
        (merged(ONE, at("engine.args", ["--max-loras=2"])), "engine.args must not contain"),
        (
            merged(ONE, at("kvTransfer", {"connector": "LMCache"})),
            "model.adapters is not allowed with kvTransfer.connector LMCache",
        ),
        (
            merged(ONE, at("kvTransfer", {"connector": "LMCacheMP", "protocol": "tcp"})),
            "model.adapters is not allowed with kvTransfer.connector LMCache",
        ),
    ],
    ids=str,
)  # fmt: skip
def test_refused(submit: Submit, spec: dict[str, Any], expected: str) -> None:
    message = submit(manifest(spec))
    assert expected in message, message or "accepted"


@pytest.mark.parametrize(
    "spec",
    [
        adapters(LOCAL, HUB, {"pvc": {"claimName": "c", "path": "a/b"}}),
        merged(adapters(REVISION), CACHE),
        merged(ONE, {"model": {"maxLoraRank": 320, "maxLoras": 1}}),
        at("engine.args", ["--enable-lora"]),
        merged(ONE, at("kvTransfer", {"connector": "MooncakeStore"})),
    ],
    ids=str,
)
def test_accepted(submit: Submit, spec: dict[str, Any]) -> None:
    assert submit(manifest(spec)) == ""
