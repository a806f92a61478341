"""The API server knows every field of every child, and refuses none of their values."""

from typing import Any

import pytest
import yaml

from pd_operator import presets
from pd_operator.api.deployment import parse
from pd_operator.build import Defaults, desired
from tests.api.test_accepted import EXAMPLES
from tests.kube import Kube

pytestmark = pytest.mark.cluster

DEFAULTS = Defaults(proxy_image="r.example/proxy:1", mooncake_image="r.example/mooncake:1")
PLAIN: dict[str, Any] = {"model": {"id": "org/model"}, "engine": {"image": "r.example/vllm:1"}}
RICH: dict[str, Any] = {
    "model": {
        "id": "org/model",
        "servedName": "served",
        "source": {
            "huggingFace": {"revision": "main", "tokenSecret": {"name": "hf", "key": "token"}}
        },
    },
    "engine": {"image": "r.example/vllm:1", "version": "0.33.0", "args": ["--max-model-len=4096"]},
    "kvTransfer": {"connector": "Mooncake", "protocol": "rdma"},
    "rdma": {"resource": "rdma/hca", "count": 2, "devices": ["mlx5_0", "mlx5_1"]},
    "prefill": {
        "replicas": 2,
        "parallelism": {"tensor": 4},
        "resources": {"requests": {"cpu": 8, "memory": "64Gi"}, "limits": {"memory": "128Gi"}},
        "nodeSelector": {"kubernetes.io/arch": "amd64"},
        "tolerations": [
            {"key": "gpu", "operator": "Equal", "value": "yes", "effect": "NoSchedule"},
            {"operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 30},
        ],
    },
    "decode": {"replicas": 3, "parallelism": {"tensor": 2}},
    "proxy": {"replicas": 3, "image": "r.example/own-proxy:1"},
    "mooncake": {
        "image": "r.example/own-mooncake:1",
        "store": {"enabled": True, "segmentSize": "8Gi", "localBufferSize": "512Mi"},
    },
    "autoscaling": {
        "mode": "Auto",
        "slo": {"ttft": "1s", "tpot": "40ms"},
        "prefill": {"min": 1, "max": 4},
        "decode": {"min": 2, "max": 8},
    },
}
PVC = PLAIN | {"model": {"id": "m", "source": {"pvc": {"claimName": "weights", "path": "a/b"}}}}


def specs() -> dict[str, dict[str, Any]]:
    examples = {
        path.stem: presets.merge(yaml.safe_load(path.read_text())["spec"], {}).spec
        for path in EXAMPLES
    }
    return {**examples, "plain": PLAIN, "rich": RICH, "pvc": PVC}


@pytest.mark.parametrize("name", specs())
def test_children(kube: Kube, name: str) -> None:
    metadata = {"name": "a" * 33, "namespace": "default", "uid": "0-0"}
    built = desired(parse({"metadata": metadata, "spec": specs()[name]}), DEFAULTS)
    objects = [*built.objects, *(tier.stateful_set for tier in built.tiers)]
    shown = kube.kubectl(
        *("apply", "--server-side", "--field-manager=pd-operator", "--dry-run=server"),
        *("--validate=strict", "-o", "name", "-f", "-"),
        stdin=yaml.safe_dump_all(objects),
    )
    assert len(shown.splitlines()) == len(objects)
