"""The proxy's configuration file, as `docs/architecture.md` describes it."""

import json
from typing import Any, Final

from pd_operator.api.deployment import PDDeployment
from pd_operator.api.proxy import ProxySpec
from pd_operator.api.proxy_limits import ProxyLimits
from pd_operator.api.proxy_queue import ProxyQueue
from pd_operator.api.proxy_routing import RoutingSpec
from pd_operator.api.proxy_timeouts import ProxyTimeouts
from pd_operator.api.values import duration_seconds, quantity
from pd_operator.build import names
from pd_operator.build.manifest import Manifest, child
from pd_shared import labels, ports

CONFIG_KEY: Final = "config.json"
DEFAULT_SESSION_HEADER: Final = "X-Session-Id"
DEFAULT_LOCAL_TOKENS: Final = 256


KEYS_FOLDER: Final = "/etc/pd-proxy-keys"
TLS_FOLDER: Final = "/etc/pd-proxy-tls"
"""Where the Secrets are mounted."""


def proxy_config(deployment: PDDeployment) -> str:
    """The file's text: times in seconds, sizes in bytes."""
    model = deployment.spec.model
    return json.dumps(
        {
            "deployment": deployment.metadata.name,
            "namespace": deployment.metadata.namespace,
            "deploymentUid": deployment.metadata.uid,
            "servedNames": [model.served_name or model.id, *(a.name for a in model.adapters)],
            "listen": {"host": "", "port": ports.HTTP},
            "admin": {"host": "", "port": ports.PROXY_ADMIN},
            "timeouts": _timeouts(deployment.spec.proxy.timeouts),
            "limits": _limits(deployment.spec.proxy.limits),
            "queue": _queue(deployment.spec.proxy.queue),
            **_options(deployment.spec.proxy),
            "routing": _routing(deployment.spec.proxy.routing),
        },
        indent=2,
    )


def _routing(routing: RoutingSpec) -> dict[str, Any]:
    return {
        "prefixAware": routing.prefix_aware is not False,
        "sessionHeader": routing.session_header or DEFAULT_SESSION_HEADER,
        "localPrefill": {
            "enabled": routing.local_prefill.enabled is True,
            "maxTokens": routing.local_prefill.max_tokens or DEFAULT_LOCAL_TOKENS,
        },
    }


def proxy_config_map(deployment: PDDeployment) -> Manifest:
    """The ConfigMap with the proxy's configuration file."""
    return child(
        deployment,
        "v1",
        "ConfigMap",
        names.proxy(deployment.metadata.name),
        labels.PROXY,
        data={CONFIG_KEY: proxy_config(deployment) + "\n"},
    )


def _timeouts(timeouts: ProxyTimeouts) -> dict[str, float]:
    return {
        name: duration_seconds(text) for name, text in timeouts.model_dump(by_alias=True).items()
    }


def _limits(limits: ProxyLimits) -> dict[str, int]:
    return {
        "bodyBytes": int(quantity(limits.body_size)),
        "headerBytes": int(quantity(limits.header_size)),
        "connections": limits.connections,
        "inFlight": limits.in_flight,
    }


def _queue(queue: ProxyQueue) -> dict[str, float]:
    return {
        "size": queue.size,
        "timeout": duration_seconds(queue.timeout),
        "perDecoder": queue.requests_per_decoder,
        "perPrefiller": queue.requests_per_prefiller,
    }


def _options(proxy: ProxySpec) -> dict[str, object]:
    result: dict[str, object] = {}
    if proxy.api_keys:
        result["apiKeys"] = {
            "folder": KEYS_FOLDER, "isolateCache": proxy.api_keys.isolate_cache,
        }  # fmt: skip
    if proxy.access_log:
        result["accessLog"] = True
    if proxy.tls:
        result["tls"] = {"folder": TLS_FOLDER}
    return result
