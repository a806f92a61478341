"""Logs as JSON, one object a line."""

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any


class JsonFormatter(logging.Formatter):
    """Time, level, logger and message; the traceback where there is one."""

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["traceback"] = self.formatException(record.exc_info)
        return json.dumps(line, ensure_ascii=False)


def configure(level: int) -> None:
    """Log everything of at least `level` to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(level)
    # Their lower levels tell of every single request, with its headers.
    for noisy in ("aiohttp.access", "asyncio", "kubernetes", "urllib3"):
        logging.getLogger(noisy).setLevel(max(level, logging.WARNING))
    # What kopf says at "info" is about each event that it passes on.
    logging.getLogger("kopf.objects").setLevel(max(level, logging.WARNING))
