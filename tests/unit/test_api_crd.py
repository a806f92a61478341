"""The CRD: the file is fresh, the schema structural, every accepted field has an effect."""

from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from pd_operator.api import crd
from tests.specs import CUDA, at, children, deployment, merged
from tools.paths import REPOSITORY

FILES = (
    "crds/pddeployments.pd-operator.io.yaml",
    "charts/pd-operator/files/pddeployments.pd-operator.io.yaml",
)


@pytest.mark.parametrize("path", FILES)
def test_file_is_fresh(path: str) -> None:
    text = (REPOSITORY / path).read_text("utf-8")
    assert text == crd.render(), "the CRD is stale: run `make generate`"


def schema() -> dict[str, Any]:
    (version,) = crd.crd()["spec"]["versions"]
    result: dict[str, Any] = version["schema"]["openAPIV3Schema"]
    return result


def nodes(node: dict[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """All schemas with their paths: `.*` for elements and values of maps."""
    yield path, node
    for name, field in node.get("properties", {}).items():
        yield from nodes(field, f"{path}.{name}".lstrip("."))
    for part in ("items", "additionalProperties"):
        if part in node:
            yield from nodes(node[part], f"{path}.*")


ALLOWED = {
    "additionalProperties", "description", "enum", "format", "items", "maxItems", "maxLength",
    "maxProperties", "maximum", "minItems", "minLength", "minimum", "pattern", "properties",
    "required", "type", "x-kubernetes-int-or-string", "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type", "x-kubernetes-preserve-unknown-fields", "x-kubernetes-validations",
}  # fmt: skip


@pytest.mark.parametrize(("path", "node"), list(nodes(schema())))
def test_schema_is_structural(path: str, node: dict[str, Any]) -> None:
    assert node.keys() <= ALLOWED
    assert "default" not in node, "the API server would store it in the user's object"
    if node.get("x-kubernetes-int-or-string"):
        assert "type" not in node
    else:
        assert node["type"] in ("array", "boolean", "integer", "number", "object", "string")
    if "properties" in node and path not in ("", "status"):
        assert "additionalProperties" not in node
        assert set(node.get("required", [])) <= node["properties"].keys()


def test_lengths_are_bounded_wherever_rules_look() -> None:
    """CEL rules are refused when their worst case costs too much."""
    for path, node in nodes(schema()["properties"]["spec"]):
        if node.get("type") == "array":
            assert "maxItems" in node, path
        if node.get("type") == "string" and "enum" not in node:
            assert "maxLength" in node, path
        if "additionalProperties" in node:
            assert "maxProperties" in node, path


def test_yaml_says_the_same_as_the_models() -> None:
    assert yaml.safe_load(crd.render()) == crd.crd()


def test_short_name_subresources_and_columns() -> None:
    spec = crd.crd()["spec"]
    (version,) = spec["versions"]
    assert spec["names"]["shortNames"] == ["pdd"]
    assert version["subresources"].keys() == {"status", "scale"}
    names = [column["name"] for column in version["additionalPrinterColumns"]]
    assert names[:4] == ["Ready", "Reason", "Prefill", "Decode"]


# Every accepted field is rendered.

NOT_IN_CHILDREN = {
    "presets.*": "they are merged before anything is built",
    "prefill.replicas": "planning sets a tier's replicas",
    "decode.replicas": "planning sets a tier's replicas",
}
"""Beside all of `autoscaling`, which the autoscaler reads."""

_TOLERATION: dict[str, Any] = {"key": "a", "effect": "NoExecute"}
_TOLERATIONS: dict[str, tuple[Any, Any]] = {
    f"tolerations.*.{key}": ([_TOLERATION], [{**_TOLERATION, key: value}])
    for key, value in (
        ("key", "b"), ("operator", "Exists"), ("value", "b"), ("effect", "NoSchedule"),
        ("tolerationSeconds", 1),
    )
}  # fmt: skip
_VARIABLE_FIELDS = ("secretKeyRef", "configMapKeyRef")
_VARIABLES: dict[str, Any] = {
    "env.*.name": ([{"name": "A"}], [{"name": "B"}]),
    "env.*.value": ([{"name": "A", "value": "a"}], [{"name": "A", "value": "b"}]),
    **{
        f"env.*.valueFrom.{kind}.{key}": tuple(
            [{"name": "A", "valueFrom": {kind: {"name": "n", "key": "k", key: value}}}]
            for value in values
        )
        for kind in _VARIABLE_FIELDS
        for key, values in (("name", "ab"), ("key", "ab"), ("optional", (False, True)))
    },
}
_VOLUMES: dict[str, Any] = {
    "volumes.*.name": ([{"name": "a", "emptyDir": {}}], [{"name": "b", "emptyDir": {}}]),
    **{
        f"volumes.*.{kind}.{key}": tuple(
            [{"name": "v", kind: {**needed, key: value}}] for value in values
        )
        for kind, key, values, needed in (
            ("configMap", "name", "ab", {}),
            ("secret", "secretName", "ab", {}),
            ("persistentVolumeClaim", "claimName", "ab", {}),
            ("persistentVolumeClaim", "readOnly", (False, True), {"claimName": "c"}),
            ("emptyDir", "medium", ("Memory", None), {}),
            ("emptyDir", "sizeLimit", ("1Gi", "2Gi"), {}),
        )
    },
    **{
        f"volumeMounts.*.{key}": tuple(
            [{"name": "a", "mountPath": "/a", key: value}] for value in values
        )
        for key, values in (
            ("name", "ab"), ("mountPath", ("/a", "/b")), ("subPath", "ab"),
            ("readOnly", (False, True)),
        )
    },
}  # fmt: skip
_TIER: dict[str, Any] = {
    "image": ("a", "b"),
    "args.*": (["--seed=1"], ["--seed=2"]),
    "runtimeClassName": ("a", "b"),
    "podOverrides.metadata.labels.*": ({"a": "b"}, {"a": "c"}),
    "podOverrides.metadata.annotations.*": ({"a": "b"}, {"a": "c"}),
    "podOverrides.spec": ({"dnsPolicy": "Default"}, {"dnsPolicy": "None"}),
    "priorityClassName": ("a", "b"),
    "shmSize": ("1Gi", "2Gi"),
    **{
        f"topologySpread.*.{key}": tuple([{"topologyKey": "zone", key: value}] for value in values)
        for key, values in (
            ("topologyKey", "ab"),
            ("maxSkew", (1, 2)),
            ("whenUnsatisfiable", ("ScheduleAnyway", "DoNotSchedule")),
        )
    },
    **_VARIABLES,
    **_VOLUMES,
    "parallelism.tensor": (1, 2),
    "parallelism.pipeline": (1, 2),
    "parallelism.data": (1, 2),
    "parallelism.nodes": (1, 2),
    "parallelism.expert.enabled": (False, True),
    "parallelism.expert.all2allBackend": ("nixl_ep", "deepep_v2"),
    "parallelism.expert.dbo.enabled": (False, True),
    "parallelism.expert.dbo.decodeTokenThreshold": (2, 3),
    "parallelism.expert.dbo.prefillTokenThreshold": (2, 3),
    "parallelism.expert.eplb.enabled": (False, True),
    "parallelism.expert.eplb.windowSize": (1, 2),
    "parallelism.expert.eplb.stepInterval": (1, 2),
    "parallelism.expert.eplb.numRedundantExperts": (0, 1),
    "parallelism.expert.eplb.logBalancedness": (False, True),
    "gpuMemoryUtilization": (0.5, 0.92),
    "maxNumSeqs": (8, 16),
    "maxNumBatchedTokens": (2048, 4096),
    "enforceEager": (True, False),
    "prefixCaching": (True, False),
    "resources.requests.*": ({"cpu": 1}, {"cpu": 2}),
    "resources.limits.*": ({"memory": "1Gi"}, {"memory": "2Gi"}),
    "nodeSelector.*": ({"pool": "a"}, {"pool": "b"}),
    **_TOLERATIONS,
}


def _adapters(name: Any = "a", **source: Any) -> list[dict[str, Any]]:
    return [{"name": name, "source": source or {"local": {"path": "/a"}}}]


_ADAPTERS: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "name": ({"name": "a"}, {"name": "b"}),
    "source.huggingFace.id": (
        {"huggingFace": {"id": "org/a"}},
        {"huggingFace": {"id": "org/b"}},
    ),
    "source.huggingFace.revision": (
        {"huggingFace": {"id": "a"}},
        {"huggingFace": {"id": "a", "revision": "b"}},
    ),
    "source.pvc.claimName": ({"pvc": {"claimName": "a"}}, {"pvc": {"claimName": "b"}}),
    "source.pvc.path": (
        {"pvc": {"claimName": "a"}},
        {"pvc": {"claimName": "a", "path": "b"}},
    ),
    "source.local.path": ({"local": {"path": "/a"}}, {"local": {"path": "/b"}}),
}


TWO_VALUES: dict[str, tuple[Any, Any]] = {
    "network.isolation": ("Enabled", "Disabled"),
    "network.monitoringNamespaces.*": (["a"], ["b"]),
    "mode": ("Disaggregated", "Colocated"),
    "model.id": ("org/a", "org/b"),
    "model.servedName": ("a", "b"),
    "model.source.huggingFace.revision": ("a", "b"),
    "model.source.huggingFace.tokenSecret.name": ("a", "b"),
    "model.source.huggingFace.tokenSecret.key": ("a", "b"),
    "model.source.huggingFace.cache.claimName": ("a", "b"),
    "model.source.huggingFace.cache.path": ("a", "b"),
    "model.source.huggingFace.cache.ignore.*": (["a"], ["b"]),
    "model.source.pvc.claimName": ("a", "b"),
    "model.source.pvc.path": ("a", "b"),
    "model.source.local.path": ("/a", "/b"),
    "model.source.oci.image": ("a", "b"),
    "model.source.oci.pullPolicy": ("Always", "Never"),
    "model.source.oci.path": ("a", "b"),
    **{
        f"model.adapters.*.{key}": (_adapters(**two[0]), _adapters(**two[1]))
        for key, two in _ADAPTERS.items()
    },
    "model.maxLoraRank": (8, 16),
    "model.maxLoras": (1, 2),
    "engine.image": ("a", "b"),
    "engine.version": ("0.33.0", "0.34.0"),
    "engine.device": ("cuda", "cpu"),
    "engine.args.*": (["--seed=1"], ["--seed=2"]),
    "engine.dtype": ("bfloat16", "float16"),
    "engine.maxModelLen": (1024, 2048),
    "engine.blockSize": (16, 32),
    "engine.kvCacheDtype": ("auto", "fp8"),
    "engine.quantization": ("fp8", "awq"),
    "engine.trustRemoteCode": (True, False),
    **{
        f"engine.speculative.{key}": two
        for key, two in {
            "method": ("Eagle", "Eagle3"),
            "numSpeculativeTokens": (1, 2),
            "model": ("org/a", "org/b"),
            "revision": ("a", "b"),
            "quantization": ("fp8", "awq"),
            "draftTensorParallelSize": (1, 2),
            "promptLookupMax": (4, 5),
            "promptLookupMin": (2, 3),
        }.items()
    },
    **{f"engine.{path}": two for path, two in _VARIABLES.items()},
    "engine.imagePullSecrets.*": (["a"], ["b"]),
    "placement.near.topologyKey": ("zone", "rack"),
    "placement.near.required": (False, True),
    "kvTransfer.protocol": ("rdma", "tcp"),
    "kvTransfer.connector": ("Mooncake", "MooncakeStore"),
    "kvTransfer.symmetric": (True, False),
    "kvTransfer.loadFailurePolicy": ("Recompute", "Fail"),
    "kvTransfer.abortTimeout": ("1m", "3m"),
    "kvTransfer.workers": (1, 2),
    "rdma.resource": ("rdma/a", "rdma/b"),
    "rdma.count": (1, 2),
    "rdma.devices.*": (["mlx5_0"], ["mlx5_1"]),
    "placement.gang.scheduler": ("Kueue", "Volcano"),
    "placement.gang.queue": ("a", "b"),
    "placement.gang.schedulerName": ("a", "b"),
    "rdma.resources.*": ({"rdma/a": 1}, {"rdma/a": 2}),
    "rdma.networks.*": (["a"], ["b"]),
    "rdma.hostNetwork": (True, False),
    "rdma.gidIndex": (0, 3),
    "rdma.mtu": (1024, 4096),
    "rdma.trafficClass": (0, 106),
    "rdma.serviceLevel": (0, 3),
    "rdma.pkeyIndex": (0, 1),
    "rdma.memoryRegistration": ("Peermem", "DMABuf"),
    "rdma.fallback": ("Never", "TCP"),
    "rdma.preflight.enabled": (True, False),
    "rdma.preflight.linkLayer": ("InfiniBand", "Ethernet"),
    "rdma.preflight.minMemlock": ("1Gi", "2Gi"),
    "proxy.replicas": (1, 3),
    "proxy.image": ("a", "b"),
    **{
        f"proxy.timeouts.{key}": ("10s", "20s")
        for key in (
            "connect",
            "bootstrap",
            "prefill",
            "kvWait",
            "firstToken",
            "betweenTokens",
            "drain",
        )
    },
    **{f"proxy.limits.{key}": ("2Ki", "4Ki") for key in ("bodySize", "headerSize")},
    "proxy.queue.size": (0, 1),
    "proxy.apiKeys.secretName": ("a", "b"),
    "proxy.apiKeys.isolateCache": (True, False),
    "proxy.tls.secretName": ("a", "b"),
    "proxy.accessLog": (True, False),
    "proxy.queue.timeout": ("1s", "2s"),
    **{f"proxy.queue.{key}": (1, 2) for key in ("requestsPerDecoder", "requestsPerPrefiller")},
    **{f"proxy.limits.{key}": (1, 2) for key in ("connections", "inFlight")},
    "proxy.routing.prefixAware": (True, False),
    "proxy.routing.sessionHeader": ("X-Session-Id", "X-User"),
    "proxy.routing.localPrefill.enabled": (True, False),
    "proxy.routing.localPrefill.maxTokens": (64, 256),
    "mooncake.image": ("a", "b"),
    "mooncake.store.enabled": (True, False),
    "mooncake.store.segmentSize": ("1Gi", "2Gi"),
    "mooncake.store.localBufferSize": ("1Gi", "2Gi"),
    "mooncake.store.mode": ("Embedded", "Standalone"),
    "mooncake.store.leaseTTL": ("1s", "2s"),
    "mooncake.store.softPinTTL": ("1s", "2s"),
    "mooncake.store.evictionHighWatermark": (80, 90),
    "mooncake.store.evictionRatio": (5, 10),
    "mooncake.store.allocationStrategy": ("Random", "LocalFirst"),
    "mooncake.store.pool.replicas": (1, 2),
    "mooncake.store.pool.nodeSelector.*": ({"pool": "a"}, {"pool": "b"}),
    **{f"mooncake.store.pool.{key}": two for key, two in _TOLERATIONS.items()},
    "mooncake.store.pool.offload.size": ("1Gi", "2Gi"),
    "mooncake.store.pool.offload.path": ("/a", "/b"),
    "mooncake.store.pool.offload.storageClass": ("a", "b"),
    "mooncake.master.port": (50051, 50052),
    "mooncake.master.metadataPort": (8080, 8081),
    "mooncake.master.ha.replicas": (2, 3),
    "mooncake.master.ha.etcd.endpoints.*": (["a:1"], ["b:1"]),
    "lmcache.chunkSize": (128, 256),
    "lmcache.prefill.localCpu": (True, False),
    "lmcache.prefill.localCpuSize": ("1Gi", "2Gi"),
    "lmcache.decode.localCpu": (True, False),
    "lmcache.decode.localCpuSize": ("1Gi", "2Gi"),
    "lmcache.server.image": ("a", "b"),
    "lmcache.server.memory": ("1Gi", "2Gi"),
    **{f"{tier}.{path}": two for tier in ("prefill", "decode") for path, two in _TIER.items()},
}
"""Values of each field whose children must differ."""

BASE = merged(CUDA, {"mooncake": {"store": {"enabled": True}}})
_EXPERT = {"enabled": True, "dbo": {"enabled": True}, "eplb": {"enabled": True}}
_DRAFT = at("engine.speculative", {"method": "Eagle", "model": "org/a", "numSpeculativeTokens": 1})
NEEDED: dict[str, dict[str, Any]] = {
    **{path: _DRAFT for path in TWO_VALUES if path.startswith("engine.speculative.")},
    "model.adapters.*.source.huggingFace.revision": at(
        "model.source.huggingFace.cache.claimName", "hub"
    ),
    "model.maxLoraRank": at("model.adapters", _adapters()),
    "model.maxLoras": at("model.adapters", _adapters()),
    "model.source.oci.pullPolicy": at("model.source.oci.image", "weights:1"),
    "model.source.oci.path": at("model.source.oci.image", "weights:1"),
    "model.source.huggingFace.tokenSecret.key": at(
        "model.source.huggingFace.tokenSecret.name", "hf"
    ),
    **{
        f"model.source.huggingFace.cache.{key}": at(
            "model.source.huggingFace.cache.claimName", "hub"
        )
        for key in ("path", "ignore.*")
    },
    "model.source.pvc.path": at("model.source.pvc.claimName", "models"),
    "placement.gang.scheduler": at("placement.gang.queue", "a"),
    "placement.gang.queue": at("placement.gang.scheduler", "Kueue"),
    "placement.gang.schedulerName": at("placement.gang.scheduler", "Coscheduling"),
    **{f"{tier}.parallelism.nodes": at(f"{tier}.parallelism.data", 2)
       for tier in ("prefill", "decode")},
    **{
        f"{tier}.{path}": at(f"{tier}.parallelism.expert", _EXPERT)
        for tier in ("prefill", "decode")
        for path in _TIER
        if path.startswith("parallelism.expert.") and path != "parallelism.expert.enabled"
    },
    **{
        f"mooncake.store.pool.{key}": at("mooncake.store.mode", "Standalone")
        for key in ("replicas", "nodeSelector.*", *_TOLERATIONS)
    },
    **{
        f"mooncake.store.pool.offload.{key}": at(
            "mooncake.store", {"mode": "Standalone", "pool": {"offload": {"size": "1Gi"}}}
        )
        for key in ("size", "path", "storageClass")
    },
    "proxy.apiKeys.isolateCache": at("proxy.apiKeys.secretName", "keys"),
    "mooncake.master.ha.replicas": at("mooncake.master.ha.etcd.endpoints", ["a:1"]),
    **{
        f"lmcache.{key}": at("kvTransfer.connector", "LMCache")
        for key in (
            "chunkSize", "prefill.localCpu", "prefill.localCpuSize", "decode.localCpu",
            "decode.localCpuSize",
        )
    },
    **{
        f"lmcache.server.{key}": {
            "kvTransfer": {"connector": "LMCacheMP"}, "mooncake": {"store": {"enabled": None}},
        }
        for key in ("image", "memory")
    },
}  # fmt: skip
"""What must be said beside a field."""


def leaves() -> set[str]:
    return {
        path
        for path, node in nodes(schema()["properties"]["spec"])
        if not {"properties", "items", "additionalProperties"} & node.keys()
    }


def test_every_field_has_its_place() -> None:
    scaling = {path for path in leaves() if path.startswith("autoscaling.")}
    assert scaling
    assert leaves() - scaling == TWO_VALUES.keys() | NOT_IN_CHILDREN.keys()


@pytest.mark.parametrize("path", TWO_VALUES)
def test_every_field_is_rendered(path: str) -> None:
    base = merged(BASE, NEEDED.get(path, {}))
    first, second = (
        children(deployment(merged(base, at(path.split(".*", maxsplit=1)[0], value))))
        for value in TWO_VALUES[path]
    )
    assert first != second


@pytest.mark.parametrize("path", NOT_IN_CHILDREN)
def test_what_others_read_is_not_rendered(path: str) -> None:
    values = (["a"], ["b"]) if path == "presets.*" else (1, 5)
    where = path.removesuffix(".*")
    rendered = [children(deployment(merged(BASE, at(where, value)))) for value in values]
    assert all(each == rendered[0] for each in rendered)
