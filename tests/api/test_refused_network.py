"""What the API server refuses of `spec.network`."""

from typing import Any

import pytest

from tests.api.conftest import Submit

pytestmark = pytest.mark.cluster


def manifest(network: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "pd-operator.io/v1alpha1",
        "kind": "PDDeployment",
        "metadata": {"name": "ok"},
        "spec": {"model": {"id": "org/model"}, "engine": {"image": "vllm:1"}, "network": network},
    }


@pytest.mark.parametrize(
    ("network", "expected"),
    [
        ({"isolation": "On"}, 'supported values: "Enabled", "Disabled"'),
        ({"monitoringNamespaces": ["A"]}, "spec.network.monitoringNamespaces[0]"),
        ({"monitoringNamespaces": ["a", "a"]}, "Duplicate value"),
        ({"monitoringNamespaces": [f"n{i}" for i in range(17)]}, "at most 16"),
        ({"isolation": "Disabled", "monitoringNamespaces": ["a"]},
         "network.monitoringNamespaces is only allowed where network.isolation is Enabled"),
    ],
    ids=str,
)  # fmt: skip
def test_refused(submit: Submit, network: dict[str, Any], expected: str) -> None:
    message = submit(manifest(network))
    assert expected in message, message or "accepted"


@pytest.mark.parametrize(
    "network", [{"isolation": "Disabled", "monitoringNamespaces": []},
                {"isolation": "Enabled", "monitoringNamespaces": ["a", "b"]}], ids=str,
)  # fmt: skip
def test_accepted(submit: Submit, network: dict[str, Any]) -> None:
    assert submit(manifest(network)) == ""
