"""Fixtures of all tests: cluster, images, operator, namespace; and what a failure leaves."""

import json
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests.failures import collect
from tests.kube import CommandError, Kube, until
from tools.paths import REPOSITORY

RELEASE = "pd-operator"
SYSTEM = "pd-system"

# The same examples in every run: a gate must not fail by chance. HYPOTHESIS_PROFILE=search looks
# for new ones, which is how to look for bugs.
settings.register_profile("gate", derandomize=True, deadline=None)
settings.register_profile("search", deadline=None, max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "gate"))

_ORDER = ("leftovers", "untouched")
"""Markers of tests that run before the others: on a cluster that nothing else uses yet."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    def rank(item: pytest.Item) -> int:
        ranks = [i for i, name in enumerate(_ORDER) if item.get_closest_marker(name)]
        return ranks[0] if ranks else len(_ORDER)

    items.sort(key=rank)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    report = yield
    on_cluster = item.get_closest_marker("cluster") or item.get_closest_marker("engine")
    if on_cluster and report.failed:
        namespace = getattr(item, "funcargs", {}).get("namespace")
        text = collect(item.name, namespace, SYSTEM)
        report.sections.append(("cluster", text))
    return report


@pytest.fixture(scope="session")
def kube() -> Kube:
    """The cluster under test, up."""
    from tests import cluster

    cluster.up()
    return Kube()


@pytest.fixture(scope="session")
def images(kube: Kube) -> dict[str, str]:
    """References of the project's images, each built and in the cluster's node."""
    from tools import images as built

    return built.load()


def image_values(images: dict[str, str]) -> dict[str, Any]:
    """The chart's values for the images under test, at the pace of a test."""
    return {
        "image": images["operator"],
        "proxyImage": images["proxy"],
        "mooncakeImage": images["mooncake"],
        "imagePullPolicy": "IfNotPresent",
        "scalingInterval": 2,
        "resyncInterval": 30,
    }


@pytest.fixture(scope="session")
def operator(
    kube: Kube, images: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """The operator, installed by its chart; yields its namespace.

    With PD_TEST_KEEP_OPERATOR in the environment it stays, for another run.
    """
    values = tmp_path_factory.mktemp("values") / "values.json"
    values.write_text(json.dumps(image_values(images)))
    kube.helm(
        *("upgrade", "--install", RELEASE, str(REPOSITORY / "charts" / "pd-operator")),
        *("--namespace", SYSTEM, "--create-namespace", "--values", str(values)),
        *("--wait", "--timeout", "3m"),
    )
    yield SYSTEM
    if not os.environ.get("PD_TEST_KEEP_OPERATOR"):
        kube.helm("uninstall", RELEASE, "--namespace", SYSTEM, "--wait", "--timeout", "2m")


@pytest.fixture
def namespace(kube: Kube) -> Iterator[str]:
    """A namespace of the test's own, gone after it."""
    name = f"t-{secrets.token_hex(4)}"
    kube.kubectl("create", "namespace", name)
    # Pods made before the default ServiceAccount exists are refused.
    until(lambda: kube.find("serviceaccount", "default", name), 30, "the default ServiceAccount")
    yield name
    try:
        kube.kubectl("delete", "namespace", name, "--wait=false")
    except CommandError as error:
        if "NotFound" not in error.stderr:
            raise


@pytest.fixture
def build_folder() -> Path:
    """Where a test may leave what a person wants to look at."""
    folder = REPOSITORY / "build"
    folder.mkdir(exist_ok=True)
    return folder
