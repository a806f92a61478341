"""What a run of pytest came to, for `make test`; and how long the tests on the cluster took."""

import json
from collections import defaultdict
from pathlib import Path
from typing import Final

import pytest

PATH: Final = "PD_TEST_RECORD"
"""In the environment: the file to write, a JSON object of lists of ids and whether all ran."""
SECONDS: Final = "pd-operator/seconds"
"""Where pytest's cache has the seconds of each test on the cluster."""
_FOLDERS: Final = ("tests/api/", "tests/e2e/")


class Record:
    """A plugin for the process that reports, not for the workers of it."""

    def __init__(self, config: pytest.Config, path: Path | None) -> None:
        self._config = config
        self._path = path
        self._passed: dict[str, None] = {}
        self._failed: dict[str, None] = {}
        self._seconds: defaultdict[str, float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        name = report.nodeid
        self._seconds[name] += report.duration
        if report.failed:
            self._failed[name] = None
        elif report.passed and report.when == "call":
            self._passed[name] = None

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed:
            self._failed[report.nodeid] = None

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        took = {name: s for name, s in self._seconds.items() if name.startswith(_FOLDERS)}
        cache = self._config.cache
        if took and cache is not None:
            known: dict[str, float] = cache.get(SECONDS, {})
            cache.set(SECONDS, {**known, **took})
        if self._path is None:
            return
        content = {
            "passed": [name for name in self._passed if name not in self._failed],
            "failed": list(self._failed),
            "whole": not (session.shouldfail or session.shouldstop),
        }
        self._path.write_text(json.dumps(content, indent=1) + "\n")
