"""The PDDeployment resource: its spec, and the object around it."""

from enum import StrEnum
from typing import Annotated, Any, ClassVar, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from pd_operator.api.adapters import ADAPTER_RULES
from pd_operator.api.autoscaling import AutoscalingSpec
from pd_operator.api.base import ApiModel, DnsLabel, Rule
from pd_operator.api.engine import EngineSpec
from pd_operator.api.kv_transfer import NEED_STORE, Connector, KVTransferSpec
from pd_operator.api.lmcache import LMCacheSpec
from pd_operator.api.model import ModelSpec
from pd_operator.api.mooncake import MooncakeSpec
from pd_operator.api.network import NetworkSpec
from pd_operator.api.options import tier_rules
from pd_operator.api.placement import PlacementSpec
from pd_operator.api.proxy import ProxySpec
from pd_operator.api.rdma import RDMASpec
from pd_operator.api.speculative import DRAFT_RULES
from pd_operator.api.tier import TierSpec
from pd_shared.labels import GROUP

VERSION: Final = "v1alpha1"
API_VERSION: Final = f"{GROUP}/{VERSION}"
KIND: Final = "PDDeployment"
PLURAL: Final = "pddeployments"

NAME_MAX_LENGTH: Final = 33
"""`<name>-prefiller-<8>` with a StatefulSet's 11-character suffix is a label value (63)."""

ROOT_RULES: Final = (
    Rule(
        f"self.metadata.name.size() <= {NAME_MAX_LENGTH}",
        f"metadata.name must have at most {NAME_MAX_LENGTH} characters: "
        "names of pods and their labels are derived from it",
    ),
    Rule(
        "self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",
        "metadata.name must be a DNS-1035 label (start with a letter, only a-z, 0-9 and -): "
        "Services are named after it",
    ),
)


class ServingMode(StrEnum):
    """Whether prefill and decode are on separate pods."""

    DISAGGREGATED = "Disaggregated"
    COLOCATED = "Colocated"


def _before_merging(*rules: Rule) -> tuple[Rule, ...]:
    """Rules between sections: with presets, only the merged spec can be judged (checks/)."""
    return tuple(Rule(f"has(self.presets) || ({r.expression})", r.message) for r in rules)


class PDDeploymentSpec(ApiModel):
    """What the user asks for."""

    mode: ServingMode = ServingMode.DISAGGREGATED
    """`Disaggregated`: prefillers and decoders. `Colocated`: the decode tier alone, whose engines
    do both and move no KV; `prefill`, `kvTransfer`, `rdma` and `mooncake` are kept, checked and
    not used, so that editing this one field switches, without downtime. Default: `Disaggregated`.
    Becomes: which tiers there are, and the pods' annotation `pd-operator.io/connector`."""
    presets: Annotated[tuple[DnsLabel, ...], Field(max_length=8)] = ()
    """Parts of a spec that are laid under this one, in the listed order: built-in ones, or
    ConfigMaps of this namespace with the label `pd-operator.io/preset=true` and the key
    `spec.yaml`. Maps are merged key by key, lists replaced. Default: none. Becomes: the merged
    spec, whose hash is `status.specHash`."""
    model: ModelSpec
    engine: EngineSpec
    kv_transfer: KVTransferSpec = KVTransferSpec()
    rdma: RDMASpec | None = None
    """Only with kvTransfer.protocol rdma. Default: one `rdma/hca_shared_devices_a`."""
    prefill: TierSpec = TierSpec()
    decode: TierSpec = TierSpec()
    placement: PlacementSpec = PlacementSpec()
    proxy: ProxySpec = ProxySpec()
    network: NetworkSpec = NetworkSpec()
    mooncake: MooncakeSpec = MooncakeSpec()
    lmcache: LMCacheSpec | None = None
    """Only with kvTransfer.connector LMCache or LMCacheMP. Default: LMCache's own values."""
    autoscaling: AutoscalingSpec = AutoscalingSpec()

    cel: ClassVar[tuple[Rule, ...]] = _before_merging(
        Rule(
            "has(self.model) && has(self.model.id) && has(self.engine) && has(self.engine.image)",
            "model.id and engine.image are required where no preset gives them",
        ),
        Rule(
            "!has(self.placement) || !has(self.placement.gang)"
            " || self.placement.gang.scheduler != 'Kueue' || !has(self.autoscaling)"
            " || !has(self.autoscaling.mode) || self.autoscaling.mode != 'Auto'",
            "autoscaling.mode must not be Auto where placement.gang.scheduler is Kueue",
        ),
        Rule(
            "!has(self.rdma) || !has(self.kvTransfer) || !has(self.kvTransfer.protocol)"
            " || self.kvTransfer.protocol == 'rdma'",
            "rdma is only allowed where kvTransfer.protocol is rdma",
        ),
        Rule(
            "!has(self.rdma) || !has(self.rdma.pkeyIndex) || !has(self.kvTransfer)"
            " || !has(self.kvTransfer.connector) || self.kvTransfer.connector != 'Nixl'",
            "rdma.pkeyIndex is not allowed with connector Nixl: UCX takes a key, not an index",
        ),
        Rule(
            "!has(self.engine) || !has(self.engine.device) || self.engine.device != 'cpu'"
            " || (has(self.kvTransfer) && has(self.kvTransfer.protocol)"
            " && self.kvTransfer.protocol == 'tcp')",
            "kvTransfer.protocol must be tcp where engine.device is cpu",
        ),
        Rule(
            # A tier without parallelism has tensor 1, which divides everything.
            "!has(self.prefill) || !has(self.decode)"
            " || !has(self.prefill.parallelism) || !has(self.decode.parallelism)"
            " || !has(self.prefill.parallelism.tensor) || !has(self.decode.parallelism.tensor)"
            " || self.prefill.parallelism.tensor % self.decode.parallelism.tensor == 0"
            " || self.decode.parallelism.tensor % self.prefill.parallelism.tensor == 0",
            "prefill.parallelism.tensor and decode.parallelism.tensor must divide one another:"
            " the connector maps ranks by their ratio",
        ),
        *(
            Rule(
                "!has(self.engine) || !has(self.engine.device) || self.engine.device != 'cpu'"
                f" || !has(self.{tier}) || !has(self.{tier}.parallelism)"
                f" || ((!has(self.{tier}.parallelism.pipeline)"
                f" || self.{tier}.parallelism.pipeline == 1)"
                f" && (!has(self.{tier}.parallelism.expert)"
                f" || !has(self.{tier}.parallelism.expert.enabled)"
                f" || !self.{tier}.parallelism.expert.enabled))",
                f"{tier}.parallelism.pipeline and {tier}.parallelism.expert.enabled are not"
                " allowed where engine.device is cpu",
            )
            for tier in ("prefill", "decode")
        ),
        Rule(
            "!has(self.kvTransfer) || !has(self.kvTransfer.connector)"
            " || self.kvTransfer.connector != 'LMCache'"
            " || !has(self.engine) || !has(self.engine.device) || self.engine.device != 'cpu'",
            "kvTransfer.connector LMCache is not allowed where engine.device is cpu: use LMCacheMP",
        ),
        Rule(
            "!has(self.lmcache) || (has(self.kvTransfer) && has(self.kvTransfer.connector)"
            " && ((self.kvTransfer.connector == 'LMCache' && !has(self.lmcache.server))"
            " || (self.kvTransfer.connector == 'LMCacheMP' && !has(self.lmcache.prefill)"
            " && !has(self.lmcache.decode))))",
            "lmcache is only allowed with kvTransfer.connector LMCache (without server) or"
            " LMCacheMP (without prefill and decode)",
        ),
        Rule(
            "!has(self.mooncake) || !has(self.mooncake.store)"
            " || !has(self.mooncake.store.enabled)"
            " || (self.mooncake.store.enabled"
            " ? (!has(self.kvTransfer) || !has(self.kvTransfer.connector)"
            " || !(self.kvTransfer.connector in ['Nixl', 'LMCacheMP']))"
            " : (!has(self.kvTransfer) || !has(self.kvTransfer.connector)"
            " || self.kvTransfer.connector in ['Mooncake', 'Nixl', 'LMCacheMP']))",
            "mooncake.store.enabled must be true (or absent) with kvTransfer.connector"
            " MooncakeStore, LMCache and Multi, and false (or absent) with Nixl and LMCacheMP",
        ),
        *DRAFT_RULES,
        *ADAPTER_RULES,
        *tier_rules(),
    )

    @property
    def uses_store(self) -> bool:
        """Whether Mooncake Store runs: where the connector needs it, or where it is asked for."""
        enabled = self.mooncake.store.enabled
        return self.kv_transfer.connector in NEED_STORE if enabled is None else enabled

    @property
    def connector(self) -> Connector:
        """The connector in effect: Mooncake beside the store is Multi."""
        asked = self.kv_transfer.connector
        return Connector.MULTI if asked is Connector.MOONCAKE and self.uses_store else asked

    @property
    def colocated(self) -> bool:
        """Whether the decode tier is all there is."""
        return self.mode is ServingMode.COLOCATED


class Metadata(BaseModel):
    """The part of an object's metadata that reconciling needs."""

    model_config = ConfigDict(frozen=True, populate_by_name=True)

    name: str
    namespace: str
    uid: str
    generation: Annotated[int, Field(ge=0)] = 0
    annotations: dict[str, str] = {}
    deletion_timestamp: Annotated[str | None, Field(alias="deletionTimestamp")] = None


class PDDeployment(BaseModel):
    """A PDDeployment as read from the API server, its spec checked."""

    model_config = ConfigDict(frozen=True)

    metadata: Metadata
    spec: PDDeploymentSpec
    status: dict[str, Any] = {}


class InvalidSpecError(ValueError):
    """The spec breaks the schema; `str()` names each field and what is allowed."""


def parse(obj: dict[str, Any]) -> PDDeployment:
    """The typed form of a PDDeployment's JSON; InvalidSpecError where the spec is wrong."""
    try:
        return PDDeployment.model_validate(
            {"metadata": obj["metadata"], "spec": obj.get("spec"), "status": obj.get("status", {})}
        )
    except ValidationError as error:
        problems = [
            f"{'.'.join(str(part) for part in detail['loc'])}: {detail['msg']}"
            for detail in error.errors(include_url=False, include_input=False)
        ]
        raise InvalidSpecError("; ".join(problems)) from error
