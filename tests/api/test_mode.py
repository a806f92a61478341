"""`spec.mode` on the API server: what it takes, and that unused fields are no fault."""

import copy
from typing import Any

import pytest

from tests.api.conftest import Submit
from tests.specs import CPU, CUDA, merged

pytestmark = pytest.mark.cluster


def manifest(spec: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "pd-operator.io/v1alpha1",
        "kind": "PDDeployment",
        "metadata": {"name": "ok"},
        "spec": copy.deepcopy(spec),
    }


@pytest.mark.parametrize("base", [CPU, CUDA])
@pytest.mark.parametrize("mode", ["Colocated", "Disaggregated"])
def test_both_modes_take_all_fields(submit: Submit, base: dict[str, Any], mode: str) -> None:
    unused = {"mode": mode, "prefill": {"replicas": 3}, "decode": {"replicas": 2}}
    assert submit(manifest(merged(base, unused))) == ""


@pytest.mark.parametrize("mode", ["colocated", "", "Both"])
def test_other_words_are_refused(submit: Submit, mode: str) -> None:
    message = submit(manifest(merged(CUDA, {"mode": mode})))
    assert "spec.mode" in message
    assert '"Disaggregated", "Colocated"' in message
