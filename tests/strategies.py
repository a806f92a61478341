"""Hypothesis strategies of specs, made from the CRD's own schema."""

from collections.abc import Mapping
from typing import Any, Final

from hypothesis import strategies as st
from pydantic import TypeAdapter

from pd_operator.api.crd import structural
from pd_operator.api.deployment import NAME_MAX_LENGTH, PDDeploymentSpec
from pd_operator.api.tier import LabelKey
from tests.specs import merged

_KEY_PATTERN: Final[str] = TypeAdapter(LabelKey).json_schema()["pattern"]
_KEYS: Final = st.one_of(
    st.sampled_from(
        ["cpu", "memory", "ephemeral-storage", "hugepages-2Mi", "example.com/device",
         "nvidia.com/gpu", "rdma/hca_shared_devices_a", "kubernetes.io/arch"]
    ),
    st.from_regex(_KEY_PATTERN, fullmatch=True, alphabet=st.characters(codec="ascii"))
    .filter(lambda text: len(text) <= 128),
)  # fmt: skip

Overrides = Mapping[str, st.SearchStrategy[Any]]


def names() -> st.SearchStrategy[str]:
    """Names that the API server accepts for a PDDeployment."""
    text = st.from_regex(r"[a-z]([-a-z0-9]{0,31}[a-z0-9])?", fullmatch=True)
    return st.one_of(text, st.just("a" * NAME_MAX_LENGTH))


def any_spec() -> st.SearchStrategy[dict[str, Any]]:
    """Any spec that the schema takes, CEL rules aside; most have problems."""
    return _object(structural(PDDeploymentSpec), "", {})


def likely_spec() -> st.SearchStrategy[dict[str, Any]]:
    """Specs as users write them; most have no problems."""
    return st.builds(
        merged, _object(structural(PDDeploymentSpec), "", _LIKELY), st.sampled_from(_COMBINED)
    ).flatmap(_with_connector)


def _with_connector(spec: dict[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    """A connector that fits the rest of a spec, and what goes with it."""
    cpu, tcp = spec["engine"]["device"] == "cpu", spec["kvTransfer"]["protocol"] == "tcp"
    store = spec["mooncake"]["store"]["enabled"]
    fits = ["Mooncake", "Multi", "MooncakeStore"] if store else ["Mooncake", "Nixl"]
    if store and not cpu:
        fits.append("LMCache")
    if tcp and not store:
        fits.append("LMCacheMP")

    def changed(connector: str, pool: dict[str, Any], lmcache: Any) -> dict[str, Any]:
        direct = connector in ("Mooncake", "Multi", "Nixl")
        kv: dict[str, Any] = {
            "connector": connector,
            **({} if direct else {"abortTimeout": None, "workers": None}),
        }
        if connector == "Nixl":
            kv["symmetric"] = False
        return merged(
            merged(spec, {"lmcache": None}),
            {"kvTransfer": kv, "mooncake": {"store": pool}, "lmcache": lmcache},
        )

    return st.sampled_from(fits).flatmap(
        lambda connector: st.builds(
            changed,
            st.just(connector),
            st.sampled_from(_STORES),
            _LMCACHE.get(connector, st.none()),
        )
    )


_RESOURCES: Final = st.sampled_from(
    [
        {},
        {"requests": {"cpu": "500m", "memory": "1.5Gi"}},
        {"requests": {"cpu": 2, "memory": "4096Mi"}, "limits": {"cpu": "2.5", "memory": "1Ti"}},
        {"limits": {"memory": "2000G", "ephemeral-storage": "1000M"}},
        {"limits": {"example.com/device": 2, "hugepages-2Mi": "64Mi", "cpu": "0.1"}},
        {"requests": {"example.com/device": "1000m"}, "limits": {"example.com/device": 1}},
    ]
)
_TOLERATIONS: Final = st.lists(
    st.sampled_from(
        [
            {"operator": "Exists"},
            {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"},
            {"key": "pool", "value": "gpu"},
            {"key": "pool", "operator": "Equal", "value": "", "effect": "NoExecute",
             "tolerationSeconds": 0},
        ]
    ),
    max_size=3,
)  # fmt: skip
_EXPERT: Final = st.sampled_from(
    [
        {"enabled": False},
        {"enabled": True},
        {"enabled": True, "all2allBackend": "nixl_ep", "dbo": {"enabled": True}},
        {"enabled": True, "eplb": {"enabled": True, "numRedundantExperts": 32}},
    ]
)
_VARIABLES: Final = st.lists(
    st.sampled_from(
        [
            {"name": "NCCL_DEBUG", "value": "INFO"},
            {"name": "EMPTY"},
            {"name": "KEY", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
            {"name": "REGION", "valueFrom": {
                "configMapKeyRef": {"name": "c", "key": "k", "optional": True}}},
        ]
    ),
    max_size=3,
    unique_by=str,
)  # fmt: skip
_VOLUMES: Final = [
    {"name": "cache", "emptyDir": {"sizeLimit": "1.5Gi"}},
    {"name": "certificates", "secret": {"secretName": "tls"}},
    {"name": "templates", "configMap": {"name": "templates"}},
    {"name": "data", "persistentVolumeClaim": {"claimName": "data", "readOnly": True}},
]
_MOUNTS: Final = st.lists(
    st.sampled_from(
        [
            {"name": "cache", "mountPath": "/var/cache/vllm"},
            {"name": "certificates", "mountPath": "/etc/ssl/own", "readOnly": True},
            {"name": "templates", "mountPath": "/mnt/templates/a.jinja", "subPath": "a.jinja"},
        ]
    ),
    max_size=3,
    unique_by=str,
)
_PATCHES: Final = st.sampled_from(
    [
        {},
        {"dnsPolicy": "Default", "nodeSelector": {"pool": "own"}},
        {"containers": [{"name": "engine", "env": [{"name": "A", "value": "1"}]},
                        {"name": "sidecar", "image": "sidecar:1"}]},
        {"volumes": [{"name": "own", "emptyDir": {}}]},
    ]
)  # fmt: skip
_LIKELY: Final[Overrides] = {
    "engine.args": st.lists(
        st.sampled_from(["--max-log-len=99", "--async-scheduling", "--seed", "7", "-O3"]),
        max_size=5,
    ).filter(lambda args: all(
        previous == "--seed" for previous, arg in zip(["", *args], args, strict=False)
        if arg == "7"
    )),
    "kvTransfer.abortTimeout": st.sampled_from(["10s", "60000ms", "1h"]),
    "mooncake.master": st.sampled_from(
        [
            {},
            {"port": 50052, "metadataPort": 8081},
            {"ha": {"etcd": {"endpoints": ["etcd-0.etcd:2379", "[fd00::1]:2379"]}, "replicas": 3}},
        ]
    ),
    "placement.gang": st.sampled_from(
        [{"scheduler": "Volcano"}, {"scheduler": "Volcano", "queue": "gpus"},
         {"scheduler": "Kueue", "queue": "gpus"}, {"scheduler": "Coscheduling"}]
    ),
    "engine.env": _VARIABLES,
    "engine.imagePullSecrets": st.sampled_from([[], ["registry"], ["a", "b.c"]]),
    "placement": st.sampled_from(
        [{}, {"near": {}}, {"near": {"topologyKey": "example.com/rack", "required": True}}]
    ),
    "engine.version": st.sampled_from(["0.33.0", "1.0.0", "0.32.0+pd", "0.32.0+cu.pd.1"]),
    "engine.speculative": st.sampled_from(
        [
            {"method": "Eagle3", "model": "/models/eagle", "numSpeculativeTokens": 3},
            {"method": "Eagle", "model": "/e", "numSpeculativeTokens": 1, "quantization": "fp8"},
            {"method": "MTP", "numSpeculativeTokens": 2, "draftTensorParallelSize": 1},
            {"method": "NGram", "numSpeculativeTokens": 4, "promptLookupMax": 4},
            {"method": "DraftModel", "model": "/models/small", "numSpeculativeTokens": 5},
        ]
    ),
    "model.adapters": st.sampled_from(
        [[], [], [{"name": "sql", "source": {"local": {"path": "/adapters/sql"}}},
                  {"name": "x", "source": {"pvc": {"claimName": "adapters", "path": "a"}}}]]
    ),
    "model.maxLoraRank": st.none(),
    "model.maxLoras": st.none(),
    "model.source": st.sampled_from(
        [
            {"huggingFace": {}},
            {"huggingFace": {"revision": "main", "tokenSecret": {"name": "hf.token"}}},
            {"pvc": {"claimName": "models"}},
            {"pvc": {"claimName": "models", "path": "a/b"}},
            {"local": {"path": "/models/tiny"}},
            {"oci": {"image": "registry.example/weights:1", "pullPolicy": "IfNotPresent"}},
        ]
    ),
    **{
        f"{tier}.{field}": strategy
        for tier in ("prefill", "decode")
        for field, strategy in {
            "resources": _RESOURCES,
            "image": st.sampled_from(["registry.example/vllm:a100", "a"]),
            "args": st.sampled_from([[], ["--max-num-seqs=64", "-O3"], ["--enforce-eager"]]),
            "env": _VARIABLES,
            "volumes": st.just(_VOLUMES),
            "runtimeClassName": st.just("nvidia"),
            "priorityClassName": st.just("serving"),
            "shmSize": st.sampled_from(["64Mi", "1.5Gi"]),
            "podOverrides.metadata": st.sampled_from(
                [{}, {"labels": {"team": "a"}, "annotations": {"example.com/x": "y z"}}]
            ),
            "topologySpread": st.sampled_from(
                [
                    [{"topologyKey": "zone"}],
                    [{"topologyKey": "zone", "maxSkew": 2, "whenUnsatisfiable": "DoNotSchedule"},
                     {"topologyKey": "zone"}],
                ]
            ),
            "volumeMounts": _MOUNTS,
            "tolerations": _TOLERATIONS,
            "nodeSelector": st.sampled_from([{}, {"kubernetes.io/arch": "amd64", "pool": ""}]),
            "parallelism.tensor": st.sampled_from([1, 2, 4, 8]),
            "parallelism.pipeline": st.sampled_from([1, 2]),
            "parallelism.data": st.sampled_from([2, 4]),
            "parallelism.nodes": st.just(1),
            "parallelism.expert": _EXPERT,
        }.items()
    },
}  # fmt: skip
_STORES: Final[list[dict[str, Any]]] = [
    {"mode": "Embedded", "pool": None},
    {"mode": "Standalone", "pool": None},
    {"mode": "Standalone", "pool": {"replicas": 2, "nodeSelector": {"pool": "a"}}},
    {"mode": "Standalone", "pool": {"offload": {"size": "1.5Ti"}}},
    {"mode": "Standalone", "pool": {"offload": {"size": 10**12, "storageClass": "fast"}}},
]
_LMCACHE: Final[dict[str, st.SearchStrategy[Any]]] = {
    "LMCache": st.sampled_from(
        [None, {"chunkSize": 64}, {"prefill": {"localCpu": True, "localCpuSize": "1.5Gi"}}]
    ),
    "LMCacheMP": st.sampled_from([None, {"server": {"memory": "1G", "image": "a:1"}}]),
}
_COMBINED: Final[list[dict[str, Any]]] = [
    {"engine": {"device": device}, "kvTransfer": {"protocol": protocol},
     **({} if device == "cuda" else {
         tier: {"parallelism": {"pipeline": None, "expert": None}}
         for tier in ("prefill", "decode")
     }),
     "rdma": rdma, "autoscaling": None,
     "mooncake": {"store": {"enabled": store, "segmentSize": "16Gi"}, "image": None}}
    for device, protocol, rdma in (
        ("cpu", "tcp", None),
        ("cuda", "tcp", None),
        ("cuda", "rdma", None),
        ("cuda", "rdma", {"resource": "rdma/hca", "count": 2, "devices": ["mlx5_0", "mlx5_1"]}),
        ("cuda", "rdma", {"resources": {"rdma/a": 1, "rdma/b": 2}, "networks": ["ns/a", "b@net2"],
                          "gidIndex": 3, "mtu": 4096, "resource": None, "count": None,
                          "hostNetwork": False}),
        ("cuda", "rdma", {"hostNetwork": True, "networks": None, "memoryRegistration": "DMABuf",
                          "resources": None}),
    )
    for store in (False, True)
]  # fmt: skip


def _object(
    schema: dict[str, Any], path: str, overrides: Overrides
) -> st.SearchStrategy[dict[str, Any]]:
    required: dict[str, st.SearchStrategy[Any]] = {}
    optional: dict[str, st.SearchStrategy[Any]] = {}
    for name, field in schema["properties"].items():
        kind = required if name in schema.get("required", []) else optional
        kind[name] = _value(field, f"{path}{name}", overrides)
    return st.fixed_dictionaries(required, optional=optional)


def _value(schema: dict[str, Any], path: str, overrides: Overrides) -> st.SearchStrategy[Any]:
    if path in overrides:
        return overrides[path]
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if schema.get("x-kubernetes-int-or-string"):
        return st.one_of(st.integers(0, 10**12), _text(schema))
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return _PATCHES
    match schema["type"]:
        case "object" if "properties" in schema:
            return _object(schema, f"{path}.", overrides)
        case "object":
            values = _value(schema["additionalProperties"], f"{path}.*", overrides)
            return st.dictionaries(_KEYS, values, max_size=3)
        case "array":
            fewest = schema.get("minItems", 0)
            values = _value(schema["items"], f"{path}.*", overrides)
            return st.lists(values, min_size=fewest, max_size=fewest + 3)
        case "string":
            return _text(schema)
        case "integer":
            return st.integers(schema.get("minimum"), schema.get("maximum"))
        case "number":
            return st.floats(schema["minimum"], schema["maximum"])
        case "boolean":
            return st.booleans()
    raise AssertionError(f"no strategy for {path}: {schema}")


def _text(schema: dict[str, Any]) -> st.SearchStrategy[str]:
    low, high = schema.get("minLength", 0), schema.get("maxLength", 64)
    if "pattern" not in schema:
        return st.text(st.characters(codec="utf-8"), min_size=low, max_size=min(high, 40))
    ascii_only = st.characters(codec="ascii")
    return st.from_regex(schema["pattern"], fullmatch=True, alphabet=ascii_only).filter(
        lambda text: low <= len(text) <= high
    )
