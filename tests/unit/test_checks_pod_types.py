"""Types of overridden fields: what Kubernetes would refuse is told with the field's path."""

from typing import Any

import pytest

from pd_operator.checks.pod_types import type_problems
from pd_operator.validate import problems
from tests.specs import CPU, CUDA, STORE, at, children, deployment, engine_pod, merged
from tools.paths import REPOSITORY
from tools.pod_fields import render

CONTAINER = {"name": "sidecar", "image": "i"}


def container(**fields: Any) -> dict[str, Any]:
    return {"containers": [{**CONTAINER, **fields}]}


@pytest.mark.parametrize(
    ("spec", "path", "allowed"),
    [
        ({"tolerations": {"key": "a"}}, ".tolerations", "a list"),
        ({"tolerations": [{"tolerationSeconds": "5"}]}, ".tolerations[0].tolerationSeconds",
         "a whole number"),
        ({"tolerations": ["a"]}, ".tolerations[0]", "a map"),
        ({"nodeSelector": {"a": 1}}, ".nodeSelector[a]", "text"),
        ({"nodeSelector": ["a"]}, ".nodeSelector", "a map"),
        ({"priorityClassName": 1}, ".priorityClassName", "text"),
        ({"securityContext": {"runAsNonRoot": "yes"}}, ".securityContext.runAsNonRoot",
         "true or false"),
        ({"securityContext": {"runAsUser": True}}, ".securityContext.runAsUser",
         "a whole number"),
        ({"affinity": {"podAffinity": []}}, ".affinity.podAffinity", "a map"),
        (container(env=[{"name": "A", "value": 1}]), ".containers[0].env[0].value", "text"),
        (container(resources={"limits": {"cpu": "one"}}), ".containers[0].resources.limits[cpu]",
         "a quantity"),
        (container(resources={"limits": {"cpu": True}}), ".containers[0].resources.limits[cpu]",
         "a quantity"),
        (container(ports=[{"containerPort": "http"}]), ".containers[0].ports[0].containerPort",
         "a whole number"),
        ({"volumes": [{"name": "v", "emptyDir": {"sizeLimit": "big"}}]},
         ".volumes[0].emptyDir.sizeLimit", "a quantity"),
        ({"volumes": [{"name": "v", "emptyDir": "x"}]}, ".volumes[0].emptyDir", "a map"),
    ],
)  # fmt: skip
def test_a_wrong_type_is_told_with_its_path(spec: dict[str, Any], path: str, allowed: str) -> None:
    ((where, message),) = type_problems("", spec)
    assert where == path
    assert f"must be {allowed}" in message
    (problem,) = problems(deployment(merged(CUDA, at("decode.podOverrides.spec", spec))))
    assert problem.field == f"spec.decode.podOverrides.spec{path}"
    assert problem.message.startswith(problem.field)


@pytest.mark.parametrize(
    "spec",
    [
        container(resources={"limits": {"cpu": 1, "memory": "1Gi", "a.b/c": "2"}}),
        container(
            livenessProbe={"httpGet": {"port": 80}}, readinessProbe={"httpGet": {"port": "p"}}
        ),
        {"fieldOfALaterKubernetes": [1], **container(another={"one": True})},
        {"securityContext": {"runAsUser": 0, "fsGroup": 1, "supplementalGroups": [1]}},
    ],
)
def test_what_kubernetes_takes_or_alone_can_judge(spec: dict[str, Any]) -> None:
    assert list(type_problems("", spec)) == []


@pytest.mark.parametrize("spec", [CPU, CUDA, merged(CUDA, STORE)], ids=["cpu", "cuda", "store"])
def test_all_pods_of_the_operator_have_the_right_types(spec: dict[str, Any]) -> None:
    found = [engine_pod(spec, "prefiller"), engine_pod(spec, "decoder")]
    found += [
        each["spec"]["template"]["spec"]
        for (kind, _), each in children(deployment(spec)).items()
        if kind == "Deployment"
    ]
    assert [list(type_problems("", pod)) for pod in found] == [[]] * len(found)


def test_the_table_is_fresh() -> None:
    table = REPOSITORY / "operator/pd_operator/checks/pod_fields.json"
    assert table.read_text("utf-8") == render(), "pod_fields.json is stale: run `make generate`"
