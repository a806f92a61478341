"""What of the chart can be checked without helm: the rest is in tests/e2e/test_chart.py."""

import itertools
import json
import re
from collections.abc import Iterator
from typing import Any

import jsonschema
import pytest
import yaml

from pd_operator import kinds, lease
from pd_operator.api.crd import render
from pd_operator.api.deployment import parse
from pd_operator.build.roles import roles
from pd_shared import ports
from tools.paths import REPOSITORY

CHART = REPOSITORY / "charts" / "pd-operator"
CRD = "pddeployments.pd-operator.io.yaml"
TEMPLATES = sorted((CHART / "templates").glob("*"))
TEXT = "\n".join(path.read_text() for path in TEMPLATES)
READ = ["get", "list", "watch"]
CHILD = [*READ, "create", "patch", "delete"]


def values() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((CHART / "values.yaml").read_text())
    return loaded


def schema() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads((CHART / "values.schema.json").read_text())
    return loaded


def operator_rules() -> dict[str, list[str]]:
    """`group/resource` to verbs, of what the operator may do where it watches."""
    text = (CHART / "templates" / "_helpers.tpl").read_text()
    block = re.search(r'define "pd-operator.rules" -}}\n(.*?)\n{{- end', text, re.DOTALL)
    assert block
    return {
        f"{group}/{resource}": rule["verbs"]
        for rule in yaml.safe_load(block[1])
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


@pytest.mark.parametrize("folder", [REPOSITORY / "crds", CHART / "files"], ids=["crds", "chart"])
def test_crd_file_is_what_the_models_render(folder: Any) -> None:
    assert (folder / CRD).read_text() == render(), "stale: run `make generate`"


def test_crd_has_one_place_for_the_annotation_that_keeps_it() -> None:
    # templates/crd.yaml puts the annotation behind this very text.
    assert render().count("\nmetadata:\n") == 1
    assert "helm.sh/resource-policy: keep" in (CHART / "templates" / "crd.yaml").read_text()


def test_default_values_fit_the_schema() -> None:
    jsonschema.Draft7Validator.check_schema(schema())
    jsonschema.Draft7Validator(schema()).validate(values())


def test_schema_and_values_have_the_same_keys() -> None:
    # `global` is Helm's: set where the chart is a dependency.
    assert set(schema()["properties"]) - {"global"} == set(values())


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"replicaCount": 2}, "replicaCount"),
        ({"crds": {"enabled": True, "keep": True}}, "keep"),
        ({"crds": {"enabled": "yes"}}, "yes"),
        ({"replicas": 0}, "0"),
        ({"imagePullPolicy": "Sometimes"}, "Sometimes"),
        ({"logLevel": "INFO"}, "INFO"),
        ({"watchNamespaces": ["Team A"]}, "Team A"),
        ({"watchNamespaces": "a"}, "a"),
        ({"watchNamespaces": ["a", "a"]}, "a"),
        ({"watchNamespace": "a"}, "watchNamespace"),
        ({"image": "has space"}, "has space"),
        ({"image": {"repository": "x"}}, "repository"),
        ({"scalingInterval": "15s"}, "15s"),
        ({"resyncInterval": 1}, "1"),
        ({"resources": {"request": {}}}, "request"),
        ({"resources": {"limits": {"memory": "1 GB"}}}, "1 GB"),
        ({"tolerations": [{"effect": "Never"}]}, "Never"),
        ({"podAnnotations": {"x": 1}}, "1"),
    ],
    ids=str,
)
def test_wrong_values_are_refused(changed: dict[str, Any], named: str) -> None:
    with pytest.raises(jsonschema.ValidationError, match=re.escape(named)):
        jsonschema.Draft7Validator(schema()).validate({**values(), **changed})


def test_every_value_is_used_and_every_used_value_exists() -> None:
    used = set(re.findall(r"\.Values\.([A-Za-z]+)", TEXT))
    assert used == set(values())


def test_every_value_is_explained() -> None:
    lines = (CHART / "values.yaml").read_text().splitlines()
    keys = [i for i, line in enumerate(lines) if re.match(r"[a-zA-Z]+:", line)]
    assert [lines[i] for i in keys if not lines[i - 1].startswith("# ")] == []


def test_no_wildcard_in_any_rule() -> None:
    for path in TEMPLATES:
        rules = re.findall(
            r"^.*(?:apiGroups|resources|verbs|nonResourceURLs):.*$", path.read_text(), re.M
        )
        assert [line for line in rules if "*" in line] == [], path.name
    assert "cluster-admin" not in TEXT


def test_operator_may_do_this_and_no_more() -> None:
    assert operator_rules() == {
        "pd-operator.io/pddeployments": READ,
        "pd-operator.io/pddeployments/status": ["patch"],
        "pd-operator.io/pddeployments/finalizers": ["update"],
        "/configmaps": CHILD,
        "/serviceaccounts": CHILD,
        "/services": CHILD,
        "apps/deployments": CHILD,
        "apps/statefulsets": CHILD,
        "networking.k8s.io/networkpolicies": CHILD,
        "batch/jobs": CHILD,
        "policy/poddisruptionbudgets": CHILD,
        "rbac.authorization.k8s.io/rolebindings": CHILD,
        "rbac.authorization.k8s.io/roles": CHILD,
        "/pods": READ,
        "/events": ["list", "create"],
    }


def test_operator_may_make_and_prune_every_kind_of_child() -> None:
    rules = operator_rules()
    assert {
        f"{k.group}/{k.plural}": rules.get(f"{k.group}/{k.plural}") for k in kinds.CHILDREN
    } == {f"{k.group}/{k.plural}": CHILD for k in kinds.CHILDREN}


def test_operator_holds_what_it_gives_to_the_proxies() -> None:
    example = yaml.safe_load((REPOSITORY / "crds" / "examples" / "tiny-cpu.yaml").read_text())
    metadata = {"name": "tiny", "namespace": "ns", "uid": "u"}
    deployment = parse({**example, "metadata": metadata})
    rules = operator_rules()
    role, _ = roles(deployment)
    for rule in role["rules"]:
        for group, resource in itertools.product(rule["apiGroups"], rule["resources"]):
            assert set(rule["verbs"]) <= set(rules[f"{group}/{resource}"])


def test_leader_election_is_for_the_lease_that_the_operator_takes() -> None:
    text = (CHART / "templates" / "rbac.yaml").read_text()
    assert f"resources: [{kinds.LEASE.plural}]\n    resourceNames: [{lease.NAME}]" in text


@pytest.mark.parametrize(
    "part",
    [
        "runAsNonRoot: true",
        "seccompProfile: {type: RuntimeDefault}",
        "allowPrivilegeEscalation: false",
        "readOnlyRootFilesystem: true",
        "capabilities: {drop: [ALL]}",
    ],
)
def test_operator_pod_is_restricted(part: str) -> None:
    assert part in (CHART / "templates" / "deployment.yaml").read_text()


def test_ports_are_those_that_the_operator_listens_on() -> None:
    deployment = (CHART / "templates" / "deployment.yaml").read_text()
    assert f"{{name: health, containerPort: {ports.OPERATOR_HEALTH}}}" in deployment
    assert f"{{name: metrics, containerPort: {ports.OPERATOR_METRICS}}}" in deployment
    assert f"port: {ports.OPERATOR_METRICS}\n" in (CHART / "templates" / "service.yaml").read_text()


def namespaced_objects() -> Iterator[tuple[str, str]]:
    for path in TEMPLATES:
        for document in path.read_text().split("\n---\n"):
            kind = re.search(r"^kind: (\w+)$", document, re.M)
            if kind and kind[1] not in ("ClusterRole",):
                yield f"{path.name} {kind[1]}", document


@pytest.mark.parametrize(
    ("name", "document"), list(namespaced_objects()), ids=lambda value: value[:40]
)
def test_objects_name_their_namespace_and_carry_the_labels(name: str, document: str) -> None:
    # Without it, `helm template | kubectl apply` puts them where the user happens to be.
    assert "  namespace: {{ .Release.Namespace | quote }}" in document, name
    assert 'include "pd-operator.labels"' in document, name


def test_chart_and_project_have_one_version() -> None:
    chart = yaml.safe_load((CHART / "Chart.yaml").read_text())
    project = re.search(r'^version = "(.+)"$', (REPOSITORY / "pyproject.toml").read_text(), re.M)
    assert project
    assert {chart["version"], chart["appVersion"]} == {project[1]}
