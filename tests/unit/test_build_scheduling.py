"""Classes, spreading, nearness, shared memory and pull secrets."""

from typing import Any

import pytest

from pd_operator.validate import problems
from pd_shared.labels import DECODER, PREFILLER
from tests.specs import CPU, CUDA, STORE, at, children, deployment, engine_pod, merged

NEAR = {"placement": {"near": {"topologyKey": "example.com/rack"}}}


def test_classes_of_one_tier() -> None:
    classes = {"runtimeClassName": "nvidia", "priorityClassName": "serving"}
    spec = merged(CUDA, {"prefill": classes})
    assert classes.items() <= engine_pod(spec, PREFILLER).items()
    assert engine_pod(spec, DECODER) == engine_pod(CUDA, DECODER)


def test_spreading_counts_pods_of_one_tier_and_revision() -> None:
    rules = [
        {"topologyKey": "topology.kubernetes.io/zone"},
        {"topologyKey": "rack", "maxSkew": 2, "whenUnsatisfiable": "DoNotSchedule"},
    ]
    spec = merged(CUDA, at("decode.topologySpread", rules))
    of = {
        "labelSelector": {
            "matchLabels": {
                "pd-operator.io/deployment": "tiny", "pd-operator.io/component": "decoder",
            }
        },
        "matchLabelKeys": ["pd-operator.io/revision"],
    }  # fmt: skip
    assert engine_pod(spec, DECODER)["topologySpreadConstraints"] == [
        {"maxSkew": 1, "topologyKey": "topology.kubernetes.io/zone",
         "whenUnsatisfiable": "ScheduleAnyway", **of},
        {"maxSkew": 2, "topologyKey": "rack", "whenUnsatisfiable": "DoNotSchedule", **of},
    ]  # fmt: skip
    assert "topologySpreadConstraints" not in engine_pod(spec, PREFILLER)


def near_term(spec: dict[str, Any], component: str) -> dict[str, Any]:
    affinity = engine_pod(spec, component)["affinity"]["podAffinity"]
    (kind, terms) = next(iter(affinity.items()))
    (term,) = terms
    assert isinstance(term, dict)
    return {"kind": kind, **term}


@pytest.mark.parametrize("component", [PREFILLER, DECODER])
def test_near_is_a_wish_or_a_must(component: str) -> None:
    wish = near_term(merged(CUDA, NEAR), component)
    must = near_term(merged(CUDA, merged(NEAR, at("placement.near.required", True))), component)
    assert wish["kind"] == "preferredDuringSchedulingIgnoredDuringExecution"
    assert must.pop("kind") == "requiredDuringSchedulingIgnoredDuringExecution"
    assert wish["podAffinityTerm"] == must
    assert must["topologyKey"] == "example.com/rack"
    assert "podAffinity" not in engine_pod(CUDA, component)["affinity"]


def test_the_first_pod_is_near_to_itself() -> None:
    """Kubernetes lets a pod go anywhere that is the only one its own term selects."""
    spec = merged(CUDA, merged(NEAR, at("placement.near.required", True)))
    for component in (PREFILLER, DECODER):
        chosen = near_term(spec, component)["labelSelector"]
        (tier,) = [
            manifest for (kind, name), manifest in children(deployment(spec)).items()
            if kind == "StatefulSet" and component in name
        ]  # fmt: skip
        own = tier["spec"]["template"]["metadata"]["labels"]
        assert chosen["matchLabels"].items() <= own.items()
        (expression,) = chosen["matchExpressions"]
        assert own[expression["key"]] in expression["values"]


def test_near_is_one_term_for_both_tiers() -> None:
    spec = merged(CUDA, NEAR)
    assert near_term(spec, PREFILLER) == near_term(spec, DECODER)


@pytest.mark.parametrize(("spec", "default"), [(CUDA, "8Gi"), (CPU, "1Gi")])
def test_shared_memory(spec: dict[str, Any], default: str) -> None:
    def size(given: dict[str, Any]) -> Any:
        volumes = engine_pod(given, DECODER)["volumes"]
        return next(v["emptyDir"]["sizeLimit"] for v in volumes if v["name"] == "shm")

    assert size(spec) == default
    assert size(merged(spec, at("decode.shmSize", "2048Mi"))) == "2Gi"


def test_every_pod_has_the_pull_secrets() -> None:
    spec = merged(merged(CUDA, STORE), at("engine.imagePullSecrets", ["a", "b"]))
    pods = [
        manifest["spec"]["template"]["spec"]
        for manifest in children(deployment(spec)).values()
        if "template" in manifest.get("spec", {})
    ]
    assert len(pods) >= 4
    for pod in pods:
        assert pod["imagePullSecrets"] == [{"name": "a"}, {"name": "b"}]


BAD: list[tuple[dict[str, Any], str, str]] = [
    (at("placement.near.topologyKey", "a" * 64), "InvalidPlacement",
     "spec.placement.near.topologyKey"),
    (at("decode.topologySpread", [{"topologyKey": "a" * 64}]), "InvalidPlacement",
     "spec.decode.topologySpread[0].topologyKey"),
    (at("decode.topologySpread", [{"topologyKey": "a"}, {"topologyKey": "a", "maxSkew": 2}]),
     "InvalidPlacement", "spec.decode.topologySpread[1]"),
    (at("prefill.shmSize", "0"), "InvalidSharedMemory", "spec.prefill.shmSize"),
    ({"prefill": {"shmSize": "4Gi", "resources": {"limits": {"memory": "4Gi"}}}},
     "InvalidSharedMemory", "spec.prefill.shmSize"),
]  # fmt: skip


@pytest.mark.parametrize(("changes", "reason", "field"), BAD)
def test_problem(changes: dict[str, Any], reason: str, field: str) -> None:
    (problem,) = problems(deployment(merged(CUDA, changes)))
    assert (problem.reason, problem.field) == (reason, field)
    assert field in problem.message
