"""One scrape of one proxy, reduced to what the autoscaler uses."""

from collections.abc import Mapping
from dataclasses import dataclass

from pd_operator.autoscale.exposition import Exposition, Histogram, parse
from pd_shared import metrics

PREFIX = "pd_proxy_"


@dataclass(frozen=True)
class ProxySample:
    """Values at one moment; None where the proxy did not say, or said something unusable.

    Counters are totals since the proxy's start; histograms are in seconds; the KV counters are
    prompt tokens by decoder pod, `kv_requests` the requests that expected some.
    """

    offered: float | None = None
    refused: float | None = None
    """Requests whose fault was the client's: they were offered, and are no load."""
    ended: float | None = None
    """Requests that are over, with whatever outcome."""
    prompt_tokens: float | None = None
    completion_tokens: float | None = None
    in_flight_prefill: float | None = None
    in_flight_decode: float | None = None
    ttft: Histogram | None = None
    prefill: Histogram | None = None
    tpot: Histogram | None = None
    kv_expected: Mapping[str, float] | None = None
    kv_requests: Mapping[str, float] | None = None
    kv_moved: Mapping[str, float] | None = None
    kv_recomputed: Mapping[str, float] | None = None
    kv_cached: Mapping[str, float] | None = None


def read(text: str) -> ProxySample:
    """The sample in a proxy's /metrics; ExpositionError where the text cannot be used."""
    return from_exposition(parse(text, PREFIX))


def from_exposition(exposition: Exposition) -> ProxySample:
    """The sample in an exposition."""
    outcomes = exposition.by_label(metrics.REQUESTS, "outcome")
    return ProxySample(
        offered=exposition.value(metrics.REQUESTS_OFFERED),
        refused=exposition.value(metrics.REQUESTS, outcome="client_error"),
        ended=None if outcomes is None else sum(outcomes.values()),
        prompt_tokens=exposition.value(metrics.PROMPT_TOKENS_OFFERED),
        completion_tokens=exposition.value(metrics.COMPLETION_TOKENS),
        in_flight_prefill=exposition.value(metrics.IN_FLIGHT, tier=metrics.TIER_PREFILL),
        in_flight_decode=exposition.value(metrics.IN_FLIGHT, tier=metrics.TIER_DECODE),
        ttft=exposition.histogram(metrics.TTFT),
        prefill=exposition.histogram(metrics.PREFILL),
        tpot=exposition.histogram(metrics.TPOT),
        kv_expected=exposition.by_label(metrics.KV_EXPECTED_TOKENS, "decoder"),
        kv_requests=exposition.by_label(metrics.KV_EXPECTED_REQUESTS, "decoder"),
        kv_moved=exposition.by_label(metrics.KV_MOVED_TOKENS, "decoder"),
        kv_recomputed=exposition.by_label(metrics.KV_RECOMPUTED_TOKENS, "decoder"),
        kv_cached=exposition.by_label(metrics.KV_CACHED_TOKENS, "decoder"),
    )
