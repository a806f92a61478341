"""Pod overrides: how they are merged, and what they must not reach."""

import copy
from typing import Any

import pytest

from pd_operator.build import desired
from pd_operator.build.overrides import overridden
from pd_operator.checks.overrides import MAX_BYTES
from pd_operator.validate import problems
from pd_shared.labels import PREFILLER
from tests.specs import CUDA, DEFAULTS, STORE, at, deployment, engine_pod, merged

SIDECAR = {"name": "sidecar", "image": "sidecar:1"}


def patched(spec: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    patch = {"spec": spec, "metadata": metadata}
    return merged(merged(CUDA, STORE), at("prefill.podOverrides", patch))


def template(spec: dict[str, Any]) -> dict[str, Any]:
    tier = desired(deployment(spec), DEFAULTS).prefiller
    assert tier is not None
    found: dict[str, Any] = tier.stateful_set["spec"]["template"]
    return found


def test_lists_are_merged_by_their_key_and_others_replaced() -> None:
    base = {
        "containers": [
            {"name": "engine", "args": ["a"], "env": [{"name": "A", "value": "1"}]},
        ],
        "tolerations": [{"key": "a"}],
        "dnsPolicy": "Default",
    }
    patch = {
        "containers": [
            SIDECAR,
            {"name": "engine", "env": [{"name": "A", "value": "2"}, {"name": "B"}]},
        ],
        "tolerations": [{"key": "b"}],
        "volumes": [{"name": "v"}],
    }
    before = copy.deepcopy((base, patch))
    assert overridden(base, patch) == {
        "containers": [
            {"name": "engine", "args": ["a"], "env": [{"name": "A", "value": "2"}, {"name": "B"}]},
            SIDECAR,
        ],
        "tolerations": [{"key": "b"}],
        "dnsPolicy": "Default",
        "volumes": [{"name": "v"}],
    }
    assert (base, patch) == before


def test_an_empty_patch_changes_nothing() -> None:
    pod = engine_pod(CUDA, PREFILLER)
    assert overridden(pod, {}) == pod


def test_a_patch_rolls_its_own_tier_alone() -> None:
    plain = desired(deployment(merged(CUDA, STORE)), DEFAULTS)
    after = desired(deployment(patched({"dnsPolicy": "Default"})), DEFAULTS)
    assert after.prefiller is not None
    assert plain.prefiller is not None
    assert after.prefiller.revision != plain.prefiller.revision
    assert after.decoder == plain.decoder
    assert after.pairing == plain.pairing


def test_labels_and_annotations_are_added() -> None:
    found = template(patched({}, labels={"team": "a"}, annotations={"x/y": "z"}))["metadata"]
    plain = template(merged(CUDA, STORE))["metadata"]
    assert found["annotations"] == {**plain["annotations"], "x/y": "z"}
    assert found["labels"]["team"] == "a"
    assert found["labels"].keys() - plain["labels"].keys() == {"team"}


GOOD: list[dict[str, Any]] = [
    {"containers": [SIDECAR]},
    {"containers": [{"name": "engine", "env": [{"name": "A", "value": "1"}]}]},
    {"containers": [{"name": "engine", "securityContext": {"runAsUser": 0}}]},
    {"containers": [{"name": "engine", "resources": {"claims": [{"name": "c"}]}}]},
    {"initContainers": [{**SIDECAR, "restartPolicy": "Always"}]},
    {"securityContext": {"fsGroup": 1}, "schedulerName": "own", "dnsPolicy": "Default"},
    {"volumes": [{"name": "own", "nfs": {"server": "s", "path": "/"}}]},
]


@pytest.mark.parametrize("spec", GOOD, ids=str)
def test_good_patches(spec: dict[str, Any]) -> None:
    assert problems(deployment(patched(spec))) == ()


@pytest.mark.parametrize("wrong", ["x", 1, ["x"], {"a": "b"}])
@pytest.mark.parametrize("field", ["env", "volumeMounts", "securityContext"])
def test_values_of_a_wrong_type_are_told(field: str, wrong: Any) -> None:
    spec = patched({"containers": [{"name": "engine", field: wrong}]})
    found = [problem.field for problem in problems(deployment(spec))]
    # A field that the table of types lacks is left to the API server.
    right = field == "securityContext" and isinstance(wrong, dict)
    path = f"spec.prefill.podOverrides.spec.containers[0].{field}"
    assert found == [] if right else found[0].startswith(path)
    assert template(spec)["spec"]["containers"][0]["name"] == "engine"


def engine(**fields: Any) -> dict[str, Any]:
    return {"containers": [{"name": "engine", **fields}]}


BAD: list[tuple[dict[str, Any], str]] = [
    *(
        ({key: value}, f".spec.{key}")
        for key, value in (
            ("hostNetwork", True), ("hostPID", True), ("restartPolicy", "Never"),
            ("serviceAccountName", "default"), ("automountServiceAccountToken", True),
            ("terminationGracePeriodSeconds", 1), ("shareProcessNamespace", True),
            ("enableServiceLinks", True), ("nodeName", "n"), ("tolerationz", []),
        )
    ),
    *(
        (engine(**{key: value}), f".spec.containers[0].{key}")
        for key, value in (
            ("command", ["sh"]), ("args", ["x"]), ("image", "other"), ("ports", []),
            ("readinessProbe", {}), ("livenessProbe", {}), ("startupProbe", {}),
            ("lifecycle", {}), ("envFrom", []), ("restartPolicy", "Always"),
        )
    ),
    (engine(resources={"limits": {"nvidia.com/gpu": 1}}), ".spec.containers[0].resources.limits"),
    (engine(env=[{"name": "VLLM_HOST_IP", "value": "x"}]), ".spec.containers[0].env[0].name"),
    (engine(volumeMounts=[{"name": "a", "mountPath": "/dev/shm"}]),
     ".spec.containers[0].volumeMounts[0].mountPath"),
    (engine(securityContext={"privileged": True}),
     ".spec.containers[0].securityContext.privileged"),
    ({"containers": [{"name": "sidecar"}]}, ".spec.containers[0].image"),
    ({"containers": [{**SIDECAR, "ports": [{"containerPort": 8000}]}]},
     ".spec.containers[0].ports[0].containerPort"),
    ({"containers": [SIDECAR, SIDECAR]}, ".spec.containers[1].name"),
    ({"containers": [{"image": "x"}]}, ".spec.containers[0].name"),
    ({"containers": {}}, ".spec.containers"),
    ({"initContainers": [{"name": "wait-for-mooncake", "image": "x"}]},
     ".spec.initContainers[0]"),
    ({"volumes": [{"name": "tmp", "emptyDir": {}}]}, ".spec.volumes[0].name"),
    ({"volumes": [{"name": "v", "hostPath": {"path": "/"}}]}, ".spec.volumes[0].hostPath"),
    ({"dnsPolicy": None}, ".spec.dnsPolicy"),
    ({"containers": [{"name": "engine", "$patch": "delete"}]}, ".spec.containers[0].$patch"),
    ({"nodeSelector": {"a": "x" * MAX_BYTES}}, ".spec"),
]  # fmt: skip


@pytest.mark.parametrize(("spec", "path"), BAD, ids=str)
def test_refused_patches(spec: dict[str, Any], path: str) -> None:
    (problem,) = problems(deployment(patched(spec)))
    field = f"spec.prefill.podOverrides{path}"
    assert (problem.reason, problem.field) == ("OverrideNotAllowed", field)
    assert problem.message.startswith(f"{field} must") or "must be there once" in problem.message


@pytest.mark.parametrize(
    ("kind", "key", "value"),
    [
        ("labels", "pd-operator.io/component", "decoder"),
        ("labels", "app.kubernetes.io/instance", "x"),
        ("labels", "apps.kubernetes.io/pod-index", "1"),
        ("labels", "a b", "x"),
        ("labels", "team", "a b"),
        ("annotations", "pd-operator.io/deployment-uid", "x"),
        ("annotations", "pd-operator.io/draining", "true"),
        ("annotations", "a b", "x"),
    ],
)
def test_refused_metadata(kind: str, key: str, value: str) -> None:
    (problem,) = problems(deployment(patched({}, **{kind: {key: value}})))
    assert problem.field == f"spec.prefill.podOverrides.metadata.{kind}[{key}]"
