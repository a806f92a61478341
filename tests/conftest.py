"""Fixtures of all tests: cluster, images, operator, namespace; and what a failure leaves."""

import json
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from tests import record, schedule, shared, spread
from tests.failures import collect
from tests.kube import Kube
from tests.shared import RELEASE, SYSTEM, image_values
from tools.paths import REPOSITORY

__all__ = ["RELEASE", "SYSTEM", "image_values"]

# The same examples in every run: a gate must not fail by chance. HYPOTHESIS_PROFILE=search looks
# for new ones, which is how to look for bugs.
settings.register_profile("gate", derandomize=True, deadline=None)
settings.register_profile("search", deadline=None, max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "gate"))

_WORKER = "workerinput"
"""Attribute of the config in a process that pytest-xdist started."""


def pytest_configure(config: pytest.Config) -> None:
    if hasattr(config, _WORKER):
        return
    config.option.testrunuid = shared.RUN
    path = os.environ.get(record.PATH)
    config.pluginmanager.register(record.Record(config, Path(path) if path else None))


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """All workers must order alike, so they do not look for themselves."""
    node.workerinput[record.SECONDS] = _seconds(node.config)


def _seconds(config: pytest.Config) -> dict[str, float]:
    given = getattr(config, _WORKER, {}).get(record.SECONDS)
    if given is None and config.cache is not None:
        given = config.cache.get(record.SECONDS, {})
    return given or {}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    tests = [_scheduled(item) for item in items]
    for item, test in zip(items, tests, strict=True):
        if hasattr(config, _WORKER) and test.markers & set(schedule.APART):
            item.add_marker(pytest.mark.skip(reason="no test may run beside it: leave out -n"))
    items[:] = [items[i] for i in schedule.order(tests, _seconds(config))]
    if hasattr(config, _WORKER):
        spread.write(shared.GROUPS, {test.id: test.group for test in tests if test.group})


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    grouped = config.getoption("dist") == "loadgroup"
    return spread.GroupScheduling(config, log, shared.GROUPS) if grouped else None


def _scheduled(item: pytest.Item) -> schedule.Planned:
    markers = frozenset(mark.name for mark in item.iter_markers())
    if "cluster" not in markers:
        return schedule.Planned(item.nodeid, markers)
    info = getattr(item, "_fixtureinfo", None)
    found = info.name2fixturedefs if info else {}
    fixtures = {name: str(those[-1].scope) for name, those in found.items()}
    group = schedule.group(fixtures, item.nodeid.split("::")[0])
    return schedule.Planned(item.nodeid, markers, group)


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    if hasattr(session.config, _WORKER) or os.environ.get(shared.KEEP) or not shared.used():
        return
    shared.remove(Kube())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    report = yield
    on_cluster = item.get_closest_marker("cluster") or item.get_closest_marker("engine")
    if on_cluster and report.failed:
        used = getattr(item, "funcargs", {})
        places = [used.get("namespace"), *(getattr(v, "namespace", None) for v in used.values())]
        text = collect(item.name, [p for p in places if isinstance(p, str)], SYSTEM)
        report.sections.append(("cluster", text))
    return report


@pytest.fixture(scope="session")
def kube() -> Kube:
    """The cluster under test, up."""
    from tests import cluster

    with shared.locked("cluster"):
        cluster.up()
    return Kube()


@pytest.fixture(scope="session")
def images(kube: Kube) -> dict[str, str]:
    """References of the project's images, each built and in the cluster's node."""
    from tools import images as built

    with shared.locked("cluster"):
        return built.load()


@pytest.fixture(scope="session")
def operator(kube: Kube, images: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> str:
    """The operator, installed by its chart; its namespace.

    With PD_TEST_KEEP_OPERATOR in the environment it stays, for another run.
    """
    values = tmp_path_factory.mktemp("values") / "values.json"
    values.write_text(json.dumps(image_values(images)))
    shared.once("operator", lambda: shared.install(kube, str(values)))
    return SYSTEM


@pytest.fixture
def namespace(kube: Kube) -> Iterator[str]:
    """A namespace of the test's own, gone after it."""
    name = f"t-{secrets.token_hex(4)}"
    shared.create_namespace(kube, name)
    yield name
    shared.drop_namespace(kube, name)


@pytest.fixture
def build_folder() -> Path:
    """Where a test may leave what a person wants to look at."""
    folder = REPOSITORY / "build"
    folder.mkdir(exist_ok=True)
    return folder
