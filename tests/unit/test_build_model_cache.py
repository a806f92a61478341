"""The shared cache of the hub: the download Job, and what engines make of it."""

from typing import Any

import pytest

from pd_operator.api.deployment import PDDeployment, parse
from pd_operator.build import Manifest
from pd_shared import labels
from tests.specs import CUDA, at, children, deployment, engine_pod, merged, part, variables

HUB = "model.source.huggingFace"
SPEC = merged(CUDA, at(f"{HUB}.cache.claimName", "hub"))
TOKEN = at(f"{HUB}.tokenSecret.name", "hf")
DRAFT = at(
    "engine.speculative",
    {"method": "Eagle", "model": "org/draft", "revision": "v1", "numSpeculativeTokens": 1},
)
TIERS = (labels.PREFILLER, labels.DECODER)


def job(spec: dict[str, Any], of: PDDeployment | None = None) -> Manifest:
    found = [m for (kind, _), m in children(of or deployment(spec)).items() if kind == "Job"]
    assert len(found) == 1
    return found[0]


def container(spec: dict[str, Any]) -> Manifest:
    (only,) = job(spec)["spec"]["template"]["spec"]["containers"]
    assert isinstance(only, dict)
    return only


def loaded(spec: dict[str, Any]) -> str:
    both = {part(spec, component).args[0] for component in TIERS}
    assert len(both) == 1
    return both.pop()


def test_no_job_without_a_cache() -> None:
    assert not [kind for kind, _ in children(deployment(CUDA)) if kind == "Job"]


@pytest.mark.parametrize("component", TIERS)
def test_engines_load_what_the_job_links(component: str) -> None:
    (argument,) = container(SPEC)["args"]
    link = loaded(SPEC)
    assert argument == f"--repository={link}=org/model"
    pod = engine_pod(SPEC, component)
    assert f"--link={link}" in pod["initContainers"][0]["command"]
    (mount,) = (m for m in pod["containers"][0]["volumeMounts"] if m["name"] == "model")
    assert mount == {"name": "model", "mountPath": "/mnt/model", "readOnly": True}
    assert {"name": "model", "persistentVolumeClaim": {"claimName": "hub"}} in pod["volumes"]
    assert "--served-model-name=org/model" in part(SPEC, component).args


def test_the_token_is_the_jobs_alone() -> None:
    spec = merged(SPEC, TOKEN)
    secret = {"secretKeyRef": {"name": "hf", "key": "token"}}
    assert {"name": "HF_TOKEN", "valueFrom": secret} in container(spec)["env"]
    for component in TIERS:
        assert "HF_TOKEN" not in variables(spec, component)
        assert "hf" not in str(engine_pod(spec, component)["volumes"])
        assert variables(spec, component)["HF_HUB_OFFLINE"] == "1"


def test_a_revision_is_what_is_downloaded() -> None:
    spec = merged(SPEC, at(f"{HUB}.revision", "v2"))
    assert container(spec)["args"] == [f"--repository={loaded(spec)}=org/model@v2"]
    assert not [a for a in part(spec, labels.DECODER).args if a.startswith("--revision")]


def test_a_draft_model_is_downloaded_too() -> None:
    spec = merged(SPEC, DRAFT)
    model, draft = container(spec)["args"]
    link = draft.removeprefix("--repository=").removesuffix("=org/draft@v1")
    assert model.endswith("=org/model")
    (config,) = (a for a in part(spec, labels.DECODER).args if "speculative-config" in a)
    assert f'"model":"{link}"' in config
    assert "revision" not in config
    local = merged(SPEC, merged(DRAFT, at("engine.speculative.model", "/models/draft")))
    assert len(container(local)["args"]) == 1


@pytest.mark.parametrize(
    ("change", "moves"),
    [
        (at("model.id", "org/b"), True),
        (at(f"{HUB}.revision", "v2"), True),
        (at(f"{HUB}.cache.ignore", ["a"]), True),
        (at(f"{HUB}.cache.path", "a"), True),
        (TOKEN, False),
        (DRAFT, False),
        (at("engine.image", "other"), False),
        (at("model.servedName", "x"), False),
    ],
    ids=str,
)
def test_the_link_stands_for_what_is_in_it(change: dict[str, Any], moves: bool) -> None:
    assert (loaded(merged(SPEC, change)) != loaded(SPEC)) is moves


def test_the_order_of_patterns_does_not_matter() -> None:
    one, other = (merged(SPEC, at(f"{HUB}.cache.ignore", x)) for x in (["a", "b"], ["b", "a"]))
    assert loaded(one) == loaded(other)


@pytest.mark.parametrize(
    "change",
    [
        at("engine.image", "other"), TOKEN, at("decode.nodeSelector", {"pool": "gpu"}), DRAFT,
        at(f"{HUB}.cache.claimName", "other"), at("engine.env", [{"name": "HTTPS_PROXY"}]),
    ],
    ids=str,
)  # fmt: skip
def test_whatever_changes_the_jobs_template_is_another_job(change: dict[str, Any]) -> None:
    # A Job's template cannot be changed.
    before, after = job(SPEC), job(merged(SPEC, change))
    assert before["spec"] != after["spec"]
    assert before["metadata"]["name"] != after["metadata"]["name"]


def test_prefillers_and_policy_do_not_change_the_job() -> None:
    for change in (at("prefill.image", "p"), at("prefill.replicas", 3), at("proxy.replicas", 3)):
        assert job(merged(SPEC, change)) == job(SPEC)


def test_another_restart_is_another_job() -> None:
    metadata = {"name": "tiny", "namespace": "ns", "uid": "uid-1", "generation": 1}
    again = parse(
        {"metadata": {**metadata, "annotations": {labels.RESTARTED_AT: "1"}}, "spec": SPEC}
    )
    assert job(SPEC, again)["metadata"]["name"] != job(SPEC)["metadata"]["name"]


def test_the_job_is_restricted_and_has_no_rights_and_no_gpu() -> None:
    pod = job(SPEC)["spec"]["template"]["spec"]
    assert pod["serviceAccountName"] == "tiny-model"
    assert pod["automountServiceAccountToken"] is False
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert ("ServiceAccount", "tiny-model") in children(deployment(SPEC))
    (only,) = pod["containers"]
    assert only["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert set(only["resources"]["limits"]) == {"memory"}


def test_the_job_runs_where_decoders_do() -> None:
    decode = {
        "image": "decoders:1", "nodeSelector": {"pool": "gpu"},
        "tolerations": [{"operator": "Exists"}],
    }  # fmt: skip
    pod = job(merged(SPEC, {"decode": decode}))["spec"]["template"]["spec"]
    assert pod["containers"][0]["image"] == "decoders:1"
    assert pod["nodeSelector"] == {"pool": "gpu"}
    assert pod["tolerations"] == [{"operator": "Exists"}]


def test_the_users_variables_reach_the_hub_but_do_not_move_the_cache() -> None:
    given = [{"name": "HF_ENDPOINT", "value": "http://mirror"}, {"name": "HF_HUB_CACHE"},
             {"name": "HF_HOME", "value": "/elsewhere"}]  # fmt: skip
    spec = merged(merged(SPEC, at(f"{HUB}.cache.path", "a/b")), at("engine.env", given))
    found = {each["name"]: each.get("value") for each in container(spec)["env"]}
    assert found["HF_ENDPOINT"] == "http://mirror"
    assert found["HF_HOME"] == "/mnt/model/a/b"
    assert found["HF_HUB_OFFLINE"] == "0"
    assert "HF_HUB_CACHE" not in found


def test_names_fit() -> None:
    name = job(SPEC, deployment(SPEC, name="a" * 33))["metadata"]["name"]
    assert len(name) <= 63


def test_colocated_engines_use_the_cache_too() -> None:
    spec = merged(SPEC, {"mode": "Colocated"})
    assert container(spec)["args"] == container(SPEC)["args"]
