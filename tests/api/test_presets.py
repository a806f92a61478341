"""With presets the API server leaves the judgement of the whole to the operator."""

from typing import Any

import pytest

from tests.api.conftest import Submit

pytestmark = pytest.mark.cluster


def manifest(spec: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "pd-operator.io/v1alpha1",
        "kind": "PDDeployment",
        "metadata": {"name": "ok"},
        "spec": spec,
    }


@pytest.mark.parametrize(
    "spec",
    [
        {"presets": ["a"]},
        {"presets": ["a", "b-c"], "model": {"servedName": "x"}},
        # Whether this is right depends on what the preset says of kvTransfer.
        {"presets": ["a"], "engine": {"device": "cpu"}},
    ],
)
def test_parts_of_a_spec_are_taken_beside_presets(submit: Submit, spec: dict[str, Any]) -> None:
    assert submit(manifest(spec)) == ""


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({}, "model.id and engine.image are required"),
        ({"presets": ["A"]}, "spec.presets[0]"),
        ({"presets": ["a"] * 9}, "spec.presets"),
        ({"presets": ["a"], "engine": {"args": ["--port=1"]}}, "args must not contain --port"),
        ({"presets": ["a"], "engine": {"img": "x"}}, 'unknown field "spec.engine.img"'),
    ],
)
def test_what_no_preset_can_mend_is_refused(
    submit: Submit, spec: dict[str, Any], words: str
) -> None:
    assert words in submit(manifest(spec))
