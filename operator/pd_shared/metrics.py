"""Names and buckets of the proxy's Prometheus metrics, read by the operator's autoscaler.

Counter names are given as exposed, with `_total`. All times are in seconds.
"""

from typing import Final

REQUESTS_OFFERED: Final = "pd_proxy_requests_offered_total"
PROMPT_TOKENS_OFFERED: Final = "pd_proxy_prompt_tokens_offered_total"
COMPLETION_TOKENS: Final = "pd_proxy_completion_tokens_total"
REQUESTS: Final = "pd_proxy_requests_total"
TTFT: Final = "pd_proxy_ttft_seconds"
PREFILL: Final = "pd_proxy_prefill_seconds"
KV_WAIT: Final = "pd_proxy_kv_wait_seconds"
ITL: Final = "pd_proxy_itl_seconds"
TPOT: Final = "pd_proxy_tpot_seconds"
E2E: Final = "pd_proxy_e2e_seconds"
IN_FLIGHT: Final = "pd_proxy_in_flight"
BACKENDS: Final = "pd_proxy_backends"
RETRIES: Final = "pd_proxy_retries_total"
FALLBACKS: Final = "pd_proxy_fallbacks_total"
UNKNOWN_CONNECTORS: Final = "pd_proxy_unknown_connector_backends"
"""Pods whose annotation names a connector that the proxy does not know: they are not paired."""
QUEUE: Final = "pd_proxy_queue_seconds"
QUEUED: Final = "pd_proxy_queued"
SHED: Final = "pd_proxy_shed_total"
BACKEND_IN_FLIGHT: Final = "pd_proxy_backend_in_flight"
EJECTED_BACKENDS: Final = "pd_proxy_ejected_backends"
EJECTIONS: Final = "pd_proxy_ejections_total"
ORPHANED_HANDOFFS: Final = "pd_proxy_orphaned_handoffs_total"
INTERNAL_ERRORS: Final = "pd_proxy_internal_errors_total"
"""Errors in the proxy itself; a client got a 500 or a broken stream."""
KV_EXPECTED_TOKENS: Final = "pd_proxy_kv_expected_tokens_total"
KV_EXPECTED_REQUESTS: Final = "pd_proxy_kv_expected_requests_total"
KV_MOVED_TOKENS: Final = "pd_proxy_kv_moved_tokens_total"
KV_CACHED_TOKENS: Final = "pd_proxy_kv_cached_tokens_total"
KV_RECOMPUTED_TOKENS: Final = "pd_proxy_kv_recomputed_tokens_total"

OUTCOMES: Final = (
    "ok",
    "client_error",
    "upstream_error",
    "timeout",
    "no_backend",
    "cancelled",
    "overloaded",
)
"""Values of REQUESTS' label `outcome`."""

SHED_REASONS: Final = (
    "bodies",
    "connections",
    "in_flight",
    "memory",
    "queue_full",
    "queue_share",
    "queue_timeout",
)
"""Values of SHED's label `reason`."""

TIER_PREFILL: Final = "prefill"
TIER_DECODE: Final = "decode"
"""Values of the label `tier`."""

TTFT_BUCKETS: Final = (
    0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.75,
    1.0, 1.5, 2.0, 3.0, 5.0, 7.5, 10.0, 15.0, 20.0, 30.0, 60.0, 120.0,
)  # fmt: skip
TPOT_BUCKETS: Final = (
    0.001, 0.0025, 0.005, 0.0075, 0.01, 0.015, 0.02, 0.025, 0.03, 0.04, 0.05,
    0.06, 0.08, 0.1, 0.15, 0.2, 0.3, 0.5, 1.0,
)  # fmt: skip
E2E_BUCKETS: Final = (
    0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0,
)  # fmt: skip
