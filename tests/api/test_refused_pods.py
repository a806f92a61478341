"""What the API server refuses of env, args, volumes and mounts of a tier."""

from typing import Any

import pytest

from pd_operator.api.engine import AGREED_FLAGS, OWNED_FLAGS
from pd_operator.api.pods import OWNED_VARIABLES, OWNED_VOLUMES
from tests.api.conftest import Submit
from tests.api.test_refused import VALID, case_id, changed

pytestmark = pytest.mark.cluster

KEY = {"name": "n", "key": "k"}

CASES: list[tuple[str, Any, tuple[str, ...]]] = [
    ("spec.prefill.image", "has space", ("spec.prefill.image", "should match")),
    ("spec.prefill.args", [""], ("spec.prefill.args[0]", "at least 1 chars long")),
    ("spec.prefill.args", ["--x"] * 65, ("spec.prefill.args", "must have at most 64 items")),
    ("spec.engine.env", [{}], ("spec.engine.env[0].name", "Required")),
    ("spec.engine.env", [{"name": "A-B"}], ("spec.engine.env[0].name", "should match")),
    ("spec.prefill.env", [{"name": "A", "value": 1}], ("env[0].value", "must be of type string")),
    ("spec.prefill.env", [{"name": "A"}, {"name": "A"}], ("spec.prefill.env[1]", "Duplicate")),
    (
        "spec.decode.env",
        [{"name": "A", "valueFrom": {}}],
        ("spec.decode.env[0].valueFrom", "exactly one of secretKeyRef, configMapKeyRef"),
    ),
    (
        "spec.decode.env",
        [{"name": "A", "valueFrom": {"secretKeyRef": KEY, "configMapKeyRef": KEY}}],
        ("spec.decode.env[0].valueFrom", "exactly one of secretKeyRef, configMapKeyRef"),
    ),
    (
        "spec.decode.env",
        [{"name": "A", "value": "", "valueFrom": {"secretKeyRef": KEY}}],
        ("spec.decode.env[0]", "must not set both value and valueFrom"),
    ),
    (
        "spec.decode.env",
        [{"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
        ('unknown field "spec.decode.env[0].valueFrom.fieldRef"',),
    ),
    (
        "spec.prefill.volumes",
        [{"name": "v", "hostPath": {"path": "/"}}],
        ('unknown field "spec.prefill.volumes[0].hostPath"',),
    ),
    ("spec.prefill.volumes", [{"name": "v"}], ("exactly one of", "hostPath is not allowed")),
    (
        "spec.prefill.volumes",
        [{"name": "v", "emptyDir": {}, "secret": {"secretName": "s"}}],
        ("spec.prefill.volumes[0]", "exactly one of configMap, secret"),
    ),
    (
        "spec.prefill.volumes",
        [{"name": "v", "emptyDir": {"medium": "HugePages"}}],
        ("spec.prefill.volumes[0].emptyDir.medium", '"Memory"'),
    ),
    (
        "spec.prefill.volumes",
        [{"name": "v", "emptyDir": {}}, {"name": "v", "emptyDir": {}}],
        ("spec.prefill.volumes[1]", "Duplicate"),
    ),
    (
        "spec.prefill.volumeMounts",
        [{"name": "v", "mountPath": "/a"}],
        ("spec.prefill", "each of volumeMounts must name an element of volumes"),
    ),
    (
        "spec.prefill.volumeMounts",
        [{"name": "v", "mountPath": "ab"}],
        ("spec.prefill.volumeMounts[0].mountPath", "should match"),
    ),
    (
        "spec.prefill.volumeMounts",
        [{"name": "v", "mountPath": "/a/../b"}],
        ("spec.prefill.volumeMounts[0].mountPath", "should match"),
    ),
    *(
        ("spec.decode.env", [{"name": name}], ("spec.decode.env[0]", "the operator owns", name))
        for name in OWNED_VARIABLES
    ),
    *(
        (
            "spec.decode.volumes",
            [{"name": name, "emptyDir": {}}],
            ("spec.decode.volumes[0]", "a name of the operator's own", name),
        )
        for name in OWNED_VOLUMES
    ),
    *(
        ("spec.prefill.args", [f"{flag}=1"], ("spec.prefill", "that the operator sets", flag))
        for flag in OWNED_FLAGS
    ),
    *(
        ("spec.decode.args", [flag, "1"], ("spec.decode", "set it in spec.engine.args", flag))
        for flag in AGREED_FLAGS
    ),
    ("spec.decode.args", ["--kv_cache_dtype=fp8"], ("spec.decode", "set it in spec.engine.args")),
]

GOOD: list[dict[str, Any]] = [
    {
        "engine": VALID["spec"]["engine"]
        | {"env": [{"name": "VLLM_KV_CACHE_LAYOUT", "value": "HND"}]}
    },
    {"prefill": {"image": "r.example/vllm@sha256:0", "args": ["--dtyped", "-O3", "x"]}},
    {
        "decode": {
            "env": [{"name": "A"}, {"name": "B", "valueFrom": {"configMapKeyRef": KEY}}],
            "volumes": [{"name": "v", "emptyDir": {"sizeLimit": "1.5Gi"}}],
            "volumeMounts": [{"name": "v", "mountPath": "/root/.cache/x", "subPath": "a/.b"}],
        }
    },
]


@pytest.mark.parametrize("case", CASES, ids=case_id)
def test_refused(submit: Submit, case: tuple[str, Any, tuple[str, ...]]) -> None:
    path, value, expected = case
    message = submit(changed(path, value))
    assert message, "accepted"
    assert [part for part in expected if part not in message] == [], message


@pytest.mark.parametrize("spec", GOOD, ids=str)
def test_accepted(submit: Submit, spec: dict[str, Any]) -> None:
    assert submit(VALID | {"spec": VALID["spec"] | spec}) == ""
