"""The rows of the compatibility table."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from pd_operator.api.deployment import PDDeploymentSpec
from pd_operator.api.engine import Device
from pd_operator.api.kv_transfer import DIRECT, OVER_MOONCAKE, Connector, Protocol
from pd_operator.checks.compatibility.versions import PATCHED, number, patched
from pd_operator.checks.flags import given, json_value


@dataclass(frozen=True)
class Found:
    """What breaks a rule at another field than the rule's own."""

    field: str
    message: str


@dataclass(frozen=True)
class CompatibilityRule:
    """One thing that does not work."""

    name: str
    """A short name, told in the message."""
    reason: str
    """Reason of the condition Valid."""
    field: str
    """The field that has to change."""
    connectors: frozenset[Connector]
    """Where it applies; empty: with every connector."""
    versions: str
    """Versions of vLLM that it applies to, for a reader."""
    what: str
    """What does not work, for a reader."""
    source: str
    """Where it is known from."""
    broken: Callable[[PDDeploymentSpec], "str | Found | None"]
    """The message where the spec breaks it: names the field and what is allowed."""
    colocated: bool = False
    """Whether it applies in mode Colocated too."""


def _two_connectors(spec: PDDeploymentSpec) -> str | None:
    found = number(spec.engine.version)
    if (found is not None and found >= (0, 33, 0)) or patched(spec.engine.version):
        return None
    asked = (
        "spec.kvTransfer.connector Multi"
        if spec.kv_transfer.connector is Connector.MULTI
        else "spec.mooncake.store.enabled"
    )
    return (
        f"spec.engine.version is {spec.engine.version or 'not set'}; with {asked}"
        " it must say that the image has vLLM 0.33.0 or later"
        f" (or a build with the cure, labelled +{PATCHED}): earlier ones end at the first transfer"
    )


def _tensor_ratio(spec: PDDeploymentSpec) -> str | None:
    prefill, decode = spec.prefill.parallelism.tensor, spec.decode.parallelism.tensor
    if prefill % decode == 0 or decode % prefill == 0:
        return None
    return (
        f"spec.prefill.parallelism.tensor ({prefill}) and spec.decode.parallelism.tensor"
        f" ({decode}) must divide one another: the connector maps ranks by their ratio"
    )


def _kv_format(spec: PDDeploymentSpec) -> str | None:
    prefill, decode = spec.prefill.parallelism.tensor, spec.decode.parallelism.tensor
    packed = [k for k in given(spec, "--kv-cache-dtype") if "nvfp4" in k.value.lower()]
    if not packed or prefill == decode:
        return None
    return (
        f"spec.prefill.parallelism.tensor ({prefill}) and spec.decode.parallelism.tensor"
        f" ({decode}) must be equal with the KV cache in {packed[0].value}, as {packed[0].field}"
        " says: its heads cannot be split anew"
    )


def _lmcache_on_cpu(spec: PDDeploymentSpec) -> str | None:
    if spec.engine.device is not Device.CPU:
        return None
    return (
        "spec.kvTransfer.connector is LMCache, which keeps nothing on CPUs; with spec.engine.device"
        " cpu it must be Mooncake, Nixl, MooncakeStore, LMCacheMP or Multi"
    )


def _lmcache_mp_protocol(spec: PDDeploymentSpec) -> str | None:
    if spec.kv_transfer.protocol is not Protocol.RDMA:
        return None
    return (
        "spec.kvTransfer.protocol must be tcp with connector LMCacheMP: its server is reached over"
        " TCP alone"
    )


def _lmcache_hybrid(spec: PDDeploymentSpec) -> Found | None:
    for one in given(spec, "--no-disable-hybrid-kv-cache-manager"):
        return Found(
            one.field,
            f"{one.field} must not have --no-disable-hybrid-kv-cache-manager with connector"
            " LMCache, which knows one kind of KV cache alone; remove it",
        )
    return None


def _symmetric_nixl(spec: PDDeploymentSpec) -> str | None:
    if not spec.kv_transfer.symmetric:
        return None
    return (
        "spec.kvTransfer.symmetric is not allowed with connector Nixl: vLLM drops it there; remove"
        " it"
    )


def _partition_nixl(spec: PDDeploymentSpec) -> str | None:
    if spec.rdma is None or spec.rdma.pkey_index is None:
        return None
    return (
        "spec.rdma.pkeyIndex is not allowed with connector Nixl: UCX takes a partition key, not its"
        " index; remove it, and set UCX_IB_PKEY in spec.engine.env to the key's value"
    )


def _sleep(spec: PDDeploymentSpec) -> Found | None:
    asked = given(spec, "--enable-sleep-mode")
    if not asked:
        return None
    field = asked[0].field
    if spec.uses_store:
        return Found(
            field,
            f"{field} must not have --enable-sleep-mode where the Mooncake store is used:"
            " it cannot give its memory back; remove it",
        )
    found = number(spec.engine.version)
    if spec.kv_transfer.protocol is Protocol.RDMA and found is not None and found >= (0, 33, 0):
        return None
    return Found(
        field,
        f"{field} may have --enable-sleep-mode only with spec.kvTransfer.protocol rdma and"
        " a spec.engine.version of 0.33.0 or later; remove it",
    )


_REMOVED: Final = ("medusa", "mlp_speculator")


def _removed_speculator(spec: PDDeploymentSpec) -> str | None:
    named = {one.value for one in given(spec, "--spec-method")}
    named.add(str(json_value(spec, "--speculative-config", "-sc").get("method")))
    found = number(spec.engine.version)
    removed = sorted(named.intersection(_REMOVED))
    if not removed or found is None or found < (0, 33, 0):
        return None
    return (
        f"spec.engine.args must not ask for the speculative method {removed[0]}: vLLM 0.33.0"
        " removed it; eagle, eagle3, mtp, ngram and draft_model are there"
    )


def _lora(spec: PDDeploymentSpec) -> str | None:
    """The field that asks for LoRA adapters."""
    if spec.model.adapters:
        return "spec.model.adapters"
    asked = given(spec, "--enable-lora")
    return f"--enable-lora in {asked[0].field}" if asked else None


def _lora_keys(spec: PDDeploymentSpec) -> str | None:
    asked = _lora(spec)
    return asked and (
        f"{asked} is not allowed with spec.kvTransfer.connector {spec.connector.value}, whose keys"
        " do not know adapters, so that one would get the KV of another; use Mooncake, Nixl,"
        " MooncakeStore or Multi"
    )


def _lora_dual_batch(spec: PDDeploymentSpec) -> str | None:
    asked = _lora(spec)
    tiers = {"decode": spec.decode} if spec.colocated else {
        "prefill": spec.prefill, "decode": spec.decode,
    }  # fmt: skip
    for name, tier in tiers.items():
        if asked and tier.parallelism.expert.dbo.enabled:
            return f"{asked} is not allowed with spec.{name}.parallelism.expert.dbo.enabled"
    return None


RULES: Final = (
    CompatibilityRule(
        "TwoConnectors",
        "StoreNeedsVersion",
        "spec.engine.version",
        frozenset({Connector.MULTI}),
        "below 0.33.0",
        "Mooncake and the Mooncake store in one engine",
        "vLLM #43828",
        _two_connectors,
    ),
    CompatibilityRule(
        "TensorRatio",
        "IncompatibleParallelism",
        "spec.prefill.parallelism.tensor",
        frozenset(),
        "all",
        "tensor parallel sizes of which neither divides the other",
        "vLLM, _get_tp_ratio of the connectors",
        _tensor_ratio,
    ),
    CompatibilityRule(
        "PackedKVHeads",
        "IncompatibleParallelism",
        "spec.prefill.parallelism.tensor",
        DIRECT,
        "all",
        "KV cache in NVFP4 between tiers of different tensor parallelism",
        "vLLM, MooncakeConnector",
        _kv_format,
    ),
    CompatibilityRule(
        "LMCacheOnCPU",
        "ConnectorNeedsGPU",
        "spec.kvTransfer.connector",
        frozenset({Connector.LMCACHE}),
        "all",
        "LMCacheConnectorV1 on CPUs",
        "LMCache 0.5.6, its CPU connector is a stub",
        _lmcache_on_cpu,
    ),
    CompatibilityRule(
        "LMCacheHybrid",
        "ArgumentNotAllowed",
        "spec.engine.args",
        frozenset({Connector.LMCACHE}),
        "all",
        "the hybrid KV cache manager under LMCacheConnectorV1",
        "vLLM, lmcache_connector.py",
        _lmcache_hybrid,
    ),
    CompatibilityRule(
        "LMCacheServerProtocol",
        "InvalidProtocol",
        "spec.kvTransfer.protocol",
        frozenset({Connector.LMCACHE_MP}),
        "all",
        "RDMA to the LMCache server",
        "LMCache 0.5.6, its message queue",
        _lmcache_mp_protocol,
    ),
    CompatibilityRule(
        "SymmetricNixl",
        "FieldNotUsed",
        "spec.kvTransfer.symmetric",
        frozenset({Connector.NIXL}),
        "all",
        "kv_both with NIXL",
        "vLLM, NixlConnector: kv_both is deprecated",
        _symmetric_nixl,
    ),
    CompatibilityRule(
        "PartitionNixl",
        "FieldNotUsed",
        "spec.rdma.pkeyIndex",
        frozenset({Connector.NIXL}),
        "all",
        "a partition key by its index with NIXL",
        "UCX, ib_iface.c: PKEY is a key",
        _partition_nixl,
    ),
    CompatibilityRule(
        "SleepMode",
        "ArgumentNotAllowed",
        "spec.engine.args",
        OVER_MOONCAKE | {Connector.MOONCAKE_STORE},
        "below 0.33.0; later ones with TCP or the store",
        "sleep mode beside registered memory",
        "vLLM 0.33, MooncakeConnector",
        _sleep,
    ),
    CompatibilityRule(
        "RemovedSpeculator",
        "ArgumentNotAllowed",
        "spec.engine.args",
        frozenset(),
        "0.33.0 and later",
        "speculative methods medusa and mlp_speculator",
        "vLLM 0.33, config/speculative.py",
        _removed_speculator,
        colocated=True,
    ),
    CompatibilityRule(
        "LoRAKeys",
        "IncompatibleAdapters",
        "spec.model.adapters",
        frozenset({Connector.LMCACHE, Connector.LMCACHE_MP}),
        "all",
        "LoRA adapters: KV is kept by its tokens alone",
        "LMCache 0.5.6, token_database.py and its vLLM connectors",
        _lora_keys,
    ),
    CompatibilityRule(
        "LoRADualBatch",
        "IncompatibleAdapters",
        "spec.model.adapters",
        frozenset(),
        "all",
        "dual batch overlap with LoRA adapters",
        "vLLM, config/vllm.py",
        _lora_dual_batch,
        colocated=True,
    ),
)
