"""One JSON object a line."""

import json
import logging

import pytest

from pd_operator import logs
from pd_operator.logs import JsonFormatter


def record(message: str, *arguments: object, error: Exception | None = None) -> logging.LogRecord:
    info = None if error is None else (type(error), error, None)
    return logging.LogRecord("pd", logging.WARNING, "f", 1, message, arguments, info)


def test_a_line() -> None:
    line = JsonFormatter().format(record("a %s\nb", "é"))
    assert "\n" not in line
    found = json.loads(line)
    assert found.pop("time").endswith("+00:00")
    assert found == {"level": "warning", "logger": "pd", "message": "a é\nb"}


def test_a_traceback_stays_in_the_line() -> None:
    line = JsonFormatter().format(record("a", error=ValueError("why")))
    assert "\n" not in line
    assert "ValueError: why" in json.loads(line)["traceback"]


def test_requests_are_not_logged(monkeypatch: pytest.MonkeyPatch) -> None:
    root = logging.getLogger()
    monkeypatch.setattr(root, "handlers", root.handlers)
    level = root.level
    try:
        logs.configure(logging.DEBUG)
        assert logging.getLogger("pd_operator").isEnabledFor(logging.DEBUG)
        assert not logging.getLogger("aiohttp.access").isEnabledFor(logging.INFO)
        assert not logging.getLogger("kubernetes").isEnabledFor(logging.INFO)
    finally:
        root.setLevel(level)
