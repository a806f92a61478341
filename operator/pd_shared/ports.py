"""TCP ports and their names in pods and Services."""

from typing import Final

HTTP: Final = 8000
"""vLLM's HTTP server in engine pods and the proxy's data port; named `http`."""

BOOTSTRAP: Final = 8998
"""A prefiller's Mooncake bootstrap server; named `bootstrap`."""

NIXL: Final = 5600
"""An engine's NIXL side channel, one port more for each data parallel rank; named `nixl`."""

LMCACHE: Final = 5555
"""The LMCache server's requests; named `lmcache`."""

LMCACHE_HTTP: Final = 8080
"""The LMCache server's /healthcheck and /metrics: unauthenticated; named `admin`."""

STORE_RPC: Final = 50052
"""A pod of the store's pool: requests of local clients; named `rpc`."""

STORE_HTTP: Final = 9300
"""A pod of the store's pool: /health and /metrics; named `admin`."""

PROXY_ADMIN: Final = 9090
"""The proxy's /healthz, /readyz and /metrics; named `admin`, not in the client Service."""

MOONCAKE_RPC: Final = 50051
MOONCAKE_METADATA: Final = 8080
MOONCAKE_ADMIN: Final = 9003
"""The Mooncake master's metrics and admin server: unauthenticated, can remove all keys."""

OPERATOR_HEALTH: Final = 8080
OPERATOR_METRICS: Final = 9090

GROUP: Final = 8996
"""The launcher of a group's leader: where the group's other pods meet it."""

GROUP_HEALTH: Final = 8997
"""Every launcher of a group: HTTP /ready and /live, which speak for the group; named `group`."""

DATA_PARALLEL_RPC: Final = 29550
"""A group's leader: where the data parallel ranks of its other pods meet it (vLLM's default)."""

GROUP_MASTER: Final = 29501
"""A group's leader: where tensor and pipeline ranks of its other pods meet it (vLLM's default)."""
