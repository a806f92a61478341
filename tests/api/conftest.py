"""The CRD on the API server, without the operator: these tests ask only what is accepted."""

from collections.abc import Callable
from typing import Any

import pytest
import yaml

from pd_operator.api.crd import crd as crd_manifest
from tests import shared
from tests.conftest import RELEASE, SYSTEM
from tests.kube import CommandError, Kube

Manifest = dict[str, Any]
Submit = Callable[[Manifest], str]


@pytest.fixture(scope="session")
def crd(kube: Kube) -> str:
    """The CRD as the models render it, established; its name.

    It carries the marks of the chart's release, so that an installation after these tests takes
    it over instead of refusing it.
    """
    manifest = crd_manifest()
    manifest["metadata"] |= {
        "labels": {"app.kubernetes.io/managed-by": "Helm"},
        "annotations": {
            "helm.sh/resource-policy": "keep",
            "meta.helm.sh/release-name": RELEASE,
            "meta.helm.sh/release-namespace": SYSTEM,
        },
    }
    name: str = manifest["metadata"]["name"]

    def make() -> None:
        text = yaml.safe_dump(manifest)
        kube.kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=text)
        kube.kubectl("wait", "--for=condition=Established", f"crd/{name}", "--timeout=30s")

    shared.once("crd", make)
    return name


@pytest.fixture(scope="session")
def submit(kube: Kube, crd: str) -> Submit:
    """Create a PDDeployment in a dry run with fieldValidation=Strict.

    Returns the API server's message where it refuses, "" where it accepts.
    """
    # The namespace "default" will do: a dry run stores nothing.
    path = (
        "/apis/pd-operator.io/v1alpha1/namespaces/default/pddeployments"
        "?dryRun=All&fieldValidation=Strict"
    )

    def run(manifest: Manifest) -> str:
        try:
            kube.create(path, manifest)
        except CommandError as error:
            return error.stderr
        return ""

    return run
