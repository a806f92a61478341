"""What the decoders themselves say of the prompt tokens that came by KV transfer."""

import re
from typing import Final

from pd_shared import labels, ports
from tests.kube import Kube

_MOVED: Final = re.compile(
    r'^vllm:prompt_tokens_by_source_total\{[^}]*source="external_kv_transfer"[^}]*\} (\S+)$', re.M
)


def read_moved(text: str) -> float:
    """Prompt tokens that came by KV transfer, from an engine's /metrics."""
    return sum(float(value) for value in _MOVED.findall(text))


def moved_tokens(kube: Kube, name: str, namespace: str) -> dict[str, float]:
    """Prompt tokens that each decoder pod got by KV transfer since it started, by pod name."""
    selector = f"{labels.DEPLOYMENT}={name},{labels.COMPONENT}={labels.DECODER}"
    result = {}
    for pod in kube.list("pods", namespace, selector):
        pod_name = pod["metadata"]["name"]
        path = f"/api/v1/namespaces/{namespace}/pods/{pod_name}:{ports.HTTP}/proxy/metrics"
        result[pod_name] = read_moved(kube.raw(path))
    return result
