"""All children together: accepted by the API server, deterministic, owned, in apply order."""

import re
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from kubernetes_validate.utils import latest_version, validate

from pd_operator.api.deployment import InvalidSpecError, PDDeployment
from pd_operator.build import desired, url
from pd_operator.validate import problems
from pd_shared import labels
from tests.acceptable import complaints
from tests.specs import CPU, CUDA, DEFAULTS, STORE, children, deployment, merged
from tests.strategies import any_spec, likely_spec, names


def examples(count: int) -> settings:
    """So many examples, the same in every run."""
    return settings(
        max_examples=count,
        deadline=None,
        derandomize=True,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
    )


def _parsed(name: str, spec: dict[str, Any]) -> PDDeployment:
    try:
        return deployment(spec, name=name)
    except InvalidSpecError:
        assume(False)
        raise


@examples(100)
@given(name=names(), spec=any_spec())
def test_a_spec_without_problems_gives_acceptable_children(name: str, spec: dict[str, Any]) -> None:
    parsed = _parsed(name, spec)
    if problems(parsed):
        return  # such a spec is never built
    for manifest in children(parsed).values():
        assert complaints(manifest) == []


@examples(100)
@given(name=names(), spec=likely_spec())
def test_likely_specs_give_acceptable_children(name: str, spec: dict[str, Any]) -> None:
    parsed = _parsed(name, spec)
    assume(not problems(parsed))
    for manifest in children(parsed).values():
        assert complaints(manifest) == []


@examples(6)
@given(name=names(), spec=likely_spec())
def test_likely_specs_give_children_of_the_schema(name: str, spec: dict[str, Any]) -> None:
    parsed = _parsed(name, spec)
    assume(not problems(parsed))
    for manifest in children(parsed).values():
        validate(manifest, latest_version(), strict=True)


@examples(40)
@given(name=names(), spec=likely_spec())
def test_equal_specs_give_equal_children(name: str, spec: dict[str, Any]) -> None:
    assume(not problems(_parsed(name, spec)))
    again = dict(reversed(spec.items()))
    assert desired(_parsed(name, spec), DEFAULTS) == desired(_parsed(name, again), DEFAULTS)


EXPECTED = {
    ("ServiceAccount", "tiny-engine"), ("ServiceAccount", "tiny-proxy"),
    ("Role", "tiny-proxy"), ("RoleBinding", "tiny-proxy"),
    ("ConfigMap", "tiny-proxy"),
    ("Service", "tiny-prefiller"), ("Service", "tiny-decoder"), ("Service", "tiny-proxy"),
    ("PodDisruptionBudget", "tiny-prefiller"), ("PodDisruptionBudget", "tiny-decoder"),
    ("PodDisruptionBudget", "tiny-proxy"), ("NetworkPolicy", "tiny-engine"),
    ("Deployment", "tiny-proxy"),
}  # fmt: skip
WITH_STORE = {
    ("PodDisruptionBudget", "tiny-mooncake"),
    ("ConfigMap", "tiny-engine"), ("Service", "tiny-mooncake"), ("Deployment", "tiny-mooncake"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("spec", "expected"), [(CUDA, EXPECTED), (merged(CUDA, STORE), EXPECTED | WITH_STORE)]
)
def test_children_by_name(spec: dict[str, Any], expected: set[tuple[str, str]]) -> None:
    found = {
        (kind, re.sub(r"-[b-df-hj-np-tv-xz]{8}$", "-REVISION", name))
        for kind, name in children(deployment(spec))
    }
    tiers = {("StatefulSet", f"tiny-{tier}-REVISION") for tier in ("prefiller", "decoder")}
    assert found == expected | tiers | {("ConfigMap", "tiny-engine-launcher-REVISION")}


@pytest.mark.parametrize("spec", [CPU, merged(CUDA, STORE)])
def test_every_child_is_owned_and_labelled(spec: dict[str, Any]) -> None:
    for (_, name), manifest in children(deployment(spec)).items():
        metadata = manifest["metadata"]
        assert metadata["namespace"] == "ns"
        assert metadata["ownerReferences"] == [
            {
                "apiVersion": "pd-operator.io/v1alpha1",
                "kind": "PDDeployment",
                "name": "tiny",
                "uid": "uid-1",
                "controller": True,
                "blockOwnerDeletion": False,
            }
        ]
        component = name.split("-")[1]
        expected = {
            "app.kubernetes.io/managed-by": "pd-operator",
            "app.kubernetes.io/instance": "tiny",
            "app.kubernetes.io/component": component,
            "pd-operator.io/deployment": "tiny",
            "pd-operator.io/component": component,
        }
        assert expected.items() <= metadata["labels"].items()


def test_what_pods_need_is_applied_before_them() -> None:
    kinds = [manifest["kind"] for manifest in desired(deployment(merged(CUDA, STORE)),
                                                      DEFAULTS).objects]  # fmt: skip
    first_pod = kinds.index("Deployment")
    assert set(kinds[first_pod:]) == {"Deployment"}


def test_tiers_say_which_they_are() -> None:
    built = desired(deployment(CUDA), DEFAULTS)
    assert built.prefiller.component == labels.PREFILLER
    assert built.decoder.component == labels.DECODER
    assert built.prefiller.pairing == built.decoder.pairing == built.pairing


def test_url_is_the_proxy_service() -> None:
    assert url(deployment(CUDA), DEFAULTS) == "http://tiny-proxy.ns.svc.cluster.local:8000/v1"
