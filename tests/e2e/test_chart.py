"""The chart by helm itself: what it renders, and install, upgrade, uninstall for real."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from pd_operator.api.crd import crd as crd_manifest
from pd_shared import labels
from tests import shared
from tests.conftest import RELEASE, SYSTEM, image_values
from tests.kube import CommandError, Kube, Manifest, example, until
from tools.paths import REPOSITORY

pytestmark = pytest.mark.cluster

CHART = str(REPOSITORY / "charts" / "pd-operator")
CRD = "pddeployments.pd-operator.io"
IMAGES = {"image": "r.example/o:1", "proxyImage": "r.example/p:1", "mooncakeImage": "r.example/m:1"}
EVERYTHING: dict[str, Any] = {
    **IMAGES,
    "imagePullSecrets": ["registry"],
    "replicas": 3,
    "logLevel": "debug",
    "nodeSelector": {"kubernetes.io/os": "linux"},
    "tolerations": [{"key": "a", "operator": "Exists", "effect": "NoSchedule"}],
    "affinity": {
        "podAntiAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": [
                {"topologyKey": "kubernetes.io/hostname", "labelSelector": {}}
            ]
        }
    },
    "podAnnotations": {"a.example/b": "c"},
    "resources": {"requests": {"cpu": 1, "memory": "64Mi"}},
}
CHILDREN = "statefulset,deployment,service,configmap,serviceaccount,role,rolebinding,pdb"
OWN = "own"
"""Release name of this module's own installation."""


def rendered(kube: Kube, folder: Path, values: dict[str, Any]) -> list[Manifest]:
    text = kube.helm("template", OWN, CHART, "-n", "default", *values_file(folder, values))
    return [document for document in yaml.safe_load_all(text) if document]


def values_file(folder: Path, values: dict[str, Any]) -> tuple[str, str]:
    path = folder / "values.json"
    path.write_text(json.dumps(values))
    return "--values", str(path)


def names(documents: list[Manifest]) -> set[tuple[str, str]]:
    return {(d["kind"], d["metadata"]["name"]) for d in documents}


def one(documents: list[Manifest], kind: str) -> Manifest:
    (found,) = [d for d in documents if d["kind"] == kind]
    return found


def test_lint(kube: Kube, tmp_path: Path) -> None:
    for values in (IMAGES, EVERYTHING):
        kube.helm("lint", CHART, "--strict", *values_file(tmp_path, values))


def test_what_a_release_consists_of(kube: Kube, tmp_path: Path) -> None:
    assert names(rendered(kube, tmp_path, IMAGES)) == {
        ("CustomResourceDefinition", CRD),
        ("ServiceAccount", "own-pd-operator"),
        ("ClusterRole", "default-own-pd-operator"),
        ("ClusterRoleBinding", "default-own-pd-operator"),
        ("ClusterRole", "default-own-pd-operator-edit"),
        ("ClusterRole", "default-own-pd-operator-view"),
        ("Role", "own-pd-operator-leader"),
        ("RoleBinding", "own-pd-operator-leader"),
        ("Deployment", "own-pd-operator"),
        ("PodDisruptionBudget", "own-pd-operator"),
        ("Service", "own-pd-operator-metrics"),
    }


def test_one_namespace_takes_nothing_cluster_wide(kube: Kube, tmp_path: Path) -> None:
    values = {**IMAGES, "watchNamespaces": ["team-a"], "crds": {"enabled": False}}
    documents = rendered(kube, tmp_path, values)
    assert names(documents) == {
        ("ServiceAccount", "own-pd-operator"),
        ("Role", "own-pd-operator"),
        ("RoleBinding", "own-pd-operator"),
        ("Role", "own-pd-operator-leader"),
        ("RoleBinding", "own-pd-operator-leader"),
        ("Deployment", "own-pd-operator"),
        ("PodDisruptionBudget", "own-pd-operator"),
        ("Service", "own-pd-operator-metrics"),
    }
    spaces = {
        (d["kind"], d["metadata"]["name"]): d["metadata"]["namespace"]
        for d in documents
        if d["kind"].startswith("Role")
    }
    assert spaces["Role", "own-pd-operator"] == spaces["RoleBinding", "own-pd-operator"] == "team-a"
    assert spaces["Role", "own-pd-operator-leader"] == "default"


def test_each_watched_namespace_gets_a_role(kube: Kube, tmp_path: Path) -> None:
    values = {**IMAGES, "watchNamespaces": ["team-a", "team-b"], "crds": {"enabled": False}}
    documents = rendered(kube, tmp_path, values)
    for kind in ("Role", "RoleBinding"):
        found = [d["metadata"] for d in documents if d["kind"] == kind]
        spaces = {m["namespace"] for m in found if m["name"] == "own-pd-operator"}
        assert spaces == {"team-a", "team-b"}
    assert not [d for d in documents if d["kind"].startswith("Cluster")]
    (container,) = one(documents, "Deployment")["spec"]["template"]["spec"]["containers"]
    environment = {entry["name"]: entry.get("value") for entry in container["env"]}
    assert environment["PD_WATCH_NAMESPACES"] == "team-a,team-b"


def test_crd_is_the_models_and_is_kept(kube: Kube, tmp_path: Path) -> None:
    shown = one(rendered(kube, tmp_path, IMAGES), "CustomResourceDefinition")
    assert shown["metadata"].pop("annotations") == {"helm.sh/resource-policy": "keep"}
    assert shown == crd_manifest()


def test_no_rule_has_a_wildcard(kube: Kube, tmp_path: Path) -> None:
    for document in rendered(kube, tmp_path, EVERYTHING):
        for rule in document.get("rules", []):
            assert not any("*" in text for values in rule.values() for text in values), rule
            assert "secrets" not in rule["resources"], rule


def test_values_reach_the_pod(kube: Kube, tmp_path: Path) -> None:
    deployment = one(rendered(kube, tmp_path, EVERYTHING), "Deployment")
    assert deployment["spec"]["replicas"] == 3
    template = deployment["spec"]["template"]
    assert template["metadata"]["annotations"]["a.example/b"] == "c"
    pod = template["spec"]
    for key in ("nodeSelector", "tolerations", "affinity"):
        assert pod[key] == EVERYTHING[key]
    assert pod["imagePullSecrets"] == [{"name": "registry"}]
    (container,) = pod["containers"]
    assert container["resources"]["requests"] == EVERYTHING["resources"]["requests"]
    environment = {entry["name"]: entry.get("value") for entry in container["env"]}
    assert environment == {
        "PD_NAMESPACE": None,
        "PD_POD_NAME": None,
        "PD_WATCH_NAMESPACES": "",
        "PD_PROXY_IMAGE": "r.example/p:1",
        "PD_MOONCAKE_IMAGE": "r.example/m:1",
        "PD_CLUSTER_DOMAIN": "cluster.local",
        "PD_SCALING_INTERVAL": "15",
        "PD_RESYNC_INTERVAL": "120",
        "PD_LOG_LEVEL": "debug",
    }


@pytest.mark.parametrize("values", [IMAGES, EVERYTHING], ids=["least", "everything"])
@pytest.mark.parametrize("watch", [[], ["default"]], ids=["all", "one-namespace"])
def test_the_api_server_knows_every_field(
    kube: Kube, tmp_path: Path, values: dict[str, Any], watch: list[str]
) -> None:
    documents = rendered(kube, tmp_path, {**values, "watchNamespaces": watch})
    shown = kube.kubectl(
        *("apply", "--server-side", "--force-conflicts", "--dry-run=server"),
        *("--validate=strict", "-o", "name", "-f", "-"),
        stdin=yaml.safe_dump_all(documents),
    )
    assert len(shown.splitlines()) == len(documents)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({}, "image is required"),
        ({"image": "a:1"}, "proxyImage is required"),
        ({"image": "a:1", "proxyImage": "b:1"}, "mooncakeImage is required"),
        ({**IMAGES, "replicaCount": 2}, "replicaCount"),
        ({**IMAGES, "crds": {"enable": True}}, "enable"),
        ({**IMAGES, "logLevel": "loud"}, "'debug', 'info', 'warning', 'error'"),
        ({**IMAGES, "replicas": 0}, "minimum"),
    ],
    ids=str,
)
def test_wrong_values_are_refused(
    kube: Kube, tmp_path: Path, values: dict[str, Any], message: str
) -> None:
    with pytest.raises(CommandError) as error:
        rendered(kube, tmp_path, values)
    assert message in error.value.stderr


@pytest.fixture(scope="module")
def away(kube: Kube, operator: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The other tests' installation, uninstalled for good unless it is to be kept."""
    values = json.loads(kube.helm("get", "values", RELEASE, "-n", SYSTEM, "-o", "json"))
    kube.helm("uninstall", RELEASE, "-n", SYSTEM, "--wait", "--timeout", "2m")
    yield
    if os.environ.get(shared.KEEP):
        shared.install(kube, values_file(tmp_path_factory.mktemp("values"), values)[1])


@pytest.fixture
def system(kube: Kube, namespace: str) -> Iterator[str]:
    """A namespace for the operator alone, which refuses pods that are not restricted."""
    name = f"{namespace}-system"
    kube.kubectl("create", "namespace", name)
    kube.kubectl("label", "namespace", name, "pod-security.kubernetes.io/enforce=restricted")
    yield name
    kube.helm("uninstall", OWN, "-n", name, "--ignore-not-found", "--wait", "--timeout", "2m")
    shared.drop_namespace(kube, name)


def children(kube: Kube, namespace: str) -> dict[tuple[str, str], str]:
    """Kind and name to UID, of what the operator made."""
    found = kube.list(CHILDREN, namespace, f"{labels.DEPLOYMENT}=tiny")
    return {(c["kind"], c["metadata"]["name"]): c["metadata"]["uid"] for c in found}


def may(kube: Kube, account: str, verb: str, group: str, resource: str, namespace: str) -> bool:
    asked = {"namespace": namespace, "verb": verb, "group": group, "resource": resource}
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SubjectAccessReview",
        "spec": {"user": account, "resourceAttributes": asked},
    }
    answer = kube.kubectl("create", "-o", "json", "-f", "-", stdin=json.dumps(review))
    allowed: bool = json.loads(answer)["status"]["allowed"]
    return allowed


@pytest.mark.uninstalls
def test_crd_stays_when_its_release_goes(kube: Kube, away: None) -> None:
    assert kube.kubectl("get", "crd", CRD, "-o", "name").strip().endswith(CRD)
    assert json.loads(kube.helm("list", "-n", SYSTEM, "-o", "json")) == []


@pytest.mark.uninstalls
def test_install_upgrade_uninstall_and_again(
    kube: Kube, images: dict[str, str], away: None, namespace: str, system: str, tmp_path: Path
) -> None:
    values = {**image_values(images), "watchNamespaces": [namespace], "crds": {"enabled": False}}
    wait = ("--wait", "--timeout", "3m")
    notes = kube.helm("install", OWN, CHART, "-n", system, *values_file(tmp_path, values), *wait)
    assert f"kubectl -n {system} rollout status deployment/own-pd-operator" in notes
    assert "WARNING" not in notes
    deployment = kube.get("deployment", "own-pd-operator", system)
    assert deployment["status"]["readyReplicas"] == 2

    account = f"system:serviceaccount:{system}:own-pd-operator"
    assert may(kube, account, "create", "apps", "statefulsets", namespace)
    assert not may(kube, account, "list", "", "pods", "default")
    assert not may(kube, account, "get", "", "secrets", namespace)
    assert not may(kube, account, "update", "pd-operator.io", "pddeployments", namespace)

    # No engine has to run for this: the image has none, and so costs no time.
    manifest = example("tiny-cpu")
    manifest["spec"]["engine"]["image"] = images["proxy"]
    kube.apply(manifest, namespace)

    def complete() -> dict[tuple[str, str], str] | None:
        found = children(kube, namespace)
        kinds = [kind for kind, _ in found]
        whole = kinds.count("StatefulSet") == 2 and ("Service", "tiny-decoder") in found
        # Policy comes last.
        return found if whole and ("PodDisruptionBudget", "tiny-proxy") in found else None

    first = until(complete, 60, lambda: f"all children; there are {children(kube, namespace)}")

    values["logLevel"] = "debug"
    kube.helm("upgrade", OWN, CHART, "-n", system, *values_file(tmp_path, values), *wait)
    assert children(kube, namespace) == first

    kube.helm("uninstall", OWN, "-n", system, *wait)
    # Helm waits for the Deployment alone, and the leader still works for a moment.
    own = f"app.kubernetes.io/instance={OWN}"
    until(lambda: not kube.list("pods", system, own), 60, "the operator's pods gone")
    assert kube.find("pdd", "tiny", namespace) is not None
    assert children(kube, namespace) == first

    # What goes while no operator runs is made anew by the next one; it touches nothing else.
    kube.kubectl("delete", "service", "tiny-decoder", "-n", namespace)
    lost = ("Service", "tiny-decoder")
    rest = {key: uid for key, uid in first.items() if key != lost}
    assert children(kube, namespace) == rest
    kube.helm("install", OWN, CHART, "-n", system, *values_file(tmp_path, values), *wait)
    again = until(complete, 60, lambda: f"all children; there are {children(kube, namespace)}")
    assert {key: uid for key, uid in again.items() if key != lost} == rest

    kube.kubectl("delete", "pdd", "tiny", "-n", namespace)
    until(lambda: not children(kube, namespace), 60, "the children gone with their owner")


@pytest.fixture
def neighbours(kube: Kube, namespace: str) -> Iterator[list[str]]:
    """Three namespaces, the first of them the test's own."""
    others = [f"{namespace}-b", f"{namespace}-c"]
    for name in others:
        kube.kubectl("create", "namespace", name)
        until(lambda name=name: kube.find("serviceaccount", "default", name), 30, name)  # type: ignore[misc]
    yield [namespace, *others]
    for name in others:
        kube.kubectl("delete", "namespace", name, "--wait=false")


@pytest.mark.uninstalls
def test_an_operator_of_two_namespaces_touches_no_third(
    kube: Kube,
    images: dict[str, str],
    away: None,
    neighbours: list[str],
    system: str,
    tmp_path: Path,
) -> None:
    first, second, third = neighbours
    watched = {"watchNamespaces": [first, second], "crds": {"enabled": False}}
    values = {**image_values(images), **watched}
    wait = ("--wait", "--timeout", "3m")
    notes = kube.helm("install", OWN, CHART, "-n", system, *values_file(tmp_path, values), *wait)
    assert f"watches {first}, {second} and no other namespace" in notes
    account = f"system:serviceaccount:{system}:own-pd-operator"
    for space, allowed in ((first, True), (second, True), (third, False), ("default", False)):
        assert may(kube, account, "list", "pd-operator.io", "pddeployments", space) is allowed
        assert may(kube, account, "create", "apps", "statefulsets", space) is allowed

    # No engine has to run for this: the image has none, and so costs no time.
    manifest = example("tiny-cpu")
    manifest["spec"]["engine"]["image"] = images["proxy"]
    for space in neighbours:
        kube.apply(manifest, space)

    def made(space: str) -> bool:
        return ("StatefulSet" in {kind for kind, _ in children(kube, space)}) and bool(
            kube.condition("tiny", space, "Valid")
        )

    for space in (first, second):
        until(lambda space=space: made(space), 60, f"children in {space}")  # type: ignore[misc]
    # The other two were seen through a resync and a reconcile; this one was not looked at.
    assert children(kube, third) == {}
    assert kube.condition("tiny", third, "Valid") == {}

    # Another list: the operator takes over the third, and lets go of the first.
    before = children(kube, first)
    values["watchNamespaces"] = [second, third]
    kube.helm("upgrade", OWN, CHART, "-n", system, *values_file(tmp_path, values), *wait)
    until(lambda: made(third), 60, "children in the third namespace")
    assert children(kube, first) == before
    assert not may(kube, account, "list", "pd-operator.io", "pddeployments", first)
    for space in neighbours:
        kube.kubectl("delete", "pdd", "tiny", "-n", space)
