"""The operator's own Prometheus metrics."""

from collections.abc import Callable
from enum import StrEnum
from typing import Final

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)

_without_created: Final[Callable[[], None]] = disable_created_metrics  # it has no types
CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"


class Result(StrEnum):
    """How a reconcile ended; a closed set."""

    OK = "ok"
    INVALID = "invalid"
    """The spec is invalid: told in a condition."""
    REFUSED = "refused"
    """The API server refused an object, or a name is taken: told in a condition."""
    GONE = "gone"
    """The PDDeployment or its namespace is deleted."""
    ERROR = "error"
    """To be tried again."""
    FENCED = "fenced"
    """Cut short: this process may not lead any more."""


class Metrics:
    """Counters of one process; give `registry` in tests only."""

    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self._registry = registry or CollectorRegistry()
        _without_created()
        self._reconciles = Counter(
            "pd_operator_reconciles", "Reconciles by result.", ["result"], registry=self._registry
        )
        self._seconds = Histogram(
            "pd_operator_reconcile_seconds",
            "Time of one reconcile.",
            registry=self._registry,
            buckets=(0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0),
        )
        self._writes = Counter(
            "pd_operator_writes",
            "Writes to the API server that succeeded.",
            ["kind", "verb"],
            registry=self._registry,
        )
        self.queue_depth = Gauge(
            "pd_operator_queue_depth",
            "PDDeployments that wait for a reconcile or are in one.",
            registry=self._registry,
        )
        self.leader = Gauge(
            "pd_operator_leader", "1 where this process leads.", registry=self._registry
        )
        for result in Result:
            self._reconciles.labels(result.value)

    def reconciled(self, result: Result, seconds: float) -> None:
        """Count one reconcile."""
        self._reconciles.labels(result.value).inc()
        self._seconds.observe(seconds)

    def wrote(self, kind: str, verb: str) -> None:
        """Count one write."""
        self._writes.labels(kind, verb).inc()

    def text(self) -> bytes:
        """All of them in the Prometheus text format."""
        return generate_latest(self._registry)
