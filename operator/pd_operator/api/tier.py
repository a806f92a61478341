"""`spec.prefill`, `spec.decode`: the engines of a tier, and where they run."""

from typing import Annotated, ClassVar, Final, Literal

from pydantic import Field

from pd_operator.api.base import ApiModel, DnsSubdomain, ImageReference, ResourceName, Rule
from pd_operator.api.engine import AGREED_FLAGS, OWNED_FLAGS, Arguments, spellings
from pd_operator.api.options import own_rules
from pd_operator.api.overrides import PodOverrides
from pd_operator.api.parallelism import Parallelism
from pd_operator.api.pods import Mounts, Variables, Volumes
from pd_operator.api.values import Quantity

_NAME: Final = r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$"

LabelKey = Annotated[str, Field(min_length=1, max_length=128, pattern=_NAME)]
LabelValue = Annotated[
    str, Field(max_length=63, pattern=r"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$")
]


def map_keys(field: str, like: str) -> Rule:
    """Keys of a map must be names of Kubernetes."""
    # A structural schema says nothing of the keys of a map.
    return Rule(
        f"!has(self.{field}) || self.{field}.all(k, k.size() <= 128 && k.matches('{_NAME}'))",
        f"keys of {field} must be names {like}",
    )


class Resources(ApiModel):
    """Requests and limits of a container, as in a pod."""

    requests: Annotated[dict[ResourceName, Quantity], Field(max_length=16)] = {}
    """What the scheduler sets aside. Becomes: `requests` of the container `engine`."""
    limits: Annotated[dict[ResourceName, Quantity], Field(max_length=16)] = {}
    """What the container may use. Becomes: `limits` of the container `engine`."""

    cel: ClassVar[tuple[Rule, ...]] = (
        map_keys("requests", "like cpu, memory or example.com/device"),
        map_keys("limits", "like cpu, memory or example.com/device"),
        *(
            Rule(  # the pattern is for quantities that are text
                f"!has(self.{name}) ||"
                f" self.{name}.all(k, type(self.{name}[k]) == string || self.{name}[k] >= 0)",
                f"{name} must not be negative",
            )
            for name in ("requests", "limits")
        ),
    )


class Toleration(ApiModel):
    """A toleration, as in a pod."""

    key: Annotated[str, Field(max_length=317)] | None = None
    """The taint's key; absent: all keys. Becomes: `key` of the pod's toleration."""
    operator: Literal["Exists", "Equal"] | None = None
    """How `value` is compared. Default: `Equal`. Becomes: `operator` of the pod's toleration."""
    value: LabelValue | None = None
    """The taint's value. Becomes: `value` of the pod's toleration."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"] | None = None
    """The taint's effect; absent: all. Becomes: `effect` of the pod's toleration."""
    toleration_seconds: Annotated[int, Field(ge=0)] | None = None
    """How long NoExecute is tolerated; absent: for ever.

    Becomes: `tolerationSeconds` of the pod's toleration.
    """

    cel: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "(has(self.key) && self.key != '')"
            " || (has(self.operator) && self.operator == 'Exists')",
            "tolerations: operator must be Exists where key is empty",
        ),
    )


class TopologySpread(ApiModel):
    """One rule of spreading; `topologyKey` and `whenUnsatisfiable` are unique together."""

    topology_key: LabelKey
    """Label of nodes whose values are the places, such as `topology.kubernetes.io/zone`.

    Becomes: `topologyKey` of the constraint.
    """
    max_skew: Annotated[int, Field(ge=1, le=1000)] = 1
    """Most pods that one place may have above another. Default: 1.

    Becomes: `maxSkew` of the constraint.
    """
    when_unsatisfiable: Literal["ScheduleAnyway", "DoNotSchedule"] = "ScheduleAnyway"
    """Whether a pod waits where it would break the rule. Default: `ScheduleAnyway`.

    Becomes: `whenUnsatisfiable` of the constraint.
    """


TopologySpreads = Annotated[tuple[TopologySpread, ...], Field(max_length=8)]


class TierSpec(ApiModel):
    """One tier's replicas and their placement."""

    replicas: Annotated[int, Field(ge=1, le=1000)] | None = None
    """Replicas of the tier; in autoscaling mode Auto only the first number. Default: 1.

    Becomes: `replicas` of the tier's StatefulSet.
    """
    parallelism: Parallelism = Parallelism()
    gpu_memory_utilization: Annotated[float, Field(ge=0.01, le=1)] | None = None
    """Part of each GPU's memory that the engine takes. Default: 0.92, vLLM's.

    Becomes: `--gpu-memory-utilization`.
    """
    max_num_seqs: Annotated[int, Field(ge=1, le=65536)] | None = None
    """Most requests in one step. Default: vLLM's, by device.

    Becomes: `--max-num-seqs`.
    """
    max_num_batched_tokens: Annotated[int, Field(ge=1, le=100_000_000)] | None = None
    """Most tokens in one step. Default: vLLM's, by device.

    Becomes: `--max-num-batched-tokens`.
    """
    enforce_eager: bool | None = None
    """Whether CUDA graphs are left out: a faster start, slower steps. Default: false.

    Becomes: `--enforce-eager` or `--no-enforce-eager`.
    """
    prefix_caching: bool | None = None
    """Whether KV of earlier requests is used again. Default: vLLM's, which is true.

    Becomes: `--enable-prefix-caching` or `--no-enable-prefix-caching`.
    """
    resources: Resources = Resources()
    """Resources of the engine container; GPUs and RDMA devices are added by the operator."""
    node_selector: Annotated[dict[LabelKey, LabelValue], Field(max_length=32)] = {}
    """Labels of the nodes to run on. Becomes: `nodeSelector` of the tier's pods."""
    tolerations: Annotated[tuple[Toleration, ...], Field(max_length=32)] = ()
    """Taints that do not keep pods away. Becomes: `tolerations` of the tier's pods."""
    topology_spread: TopologySpreads = ()
    """How evenly the tier's pods of one revision are spread over zones, racks or nodes.

    Becomes: `topologySpreadConstraints` of the tier's pods.
    """
    runtime_class_name: DnsSubdomain | None = None
    """RuntimeClass of the pods, such as `nvidia`. Default: the cluster's.

    Becomes: `runtimeClassName` of the tier's pods.
    """
    priority_class_name: DnsSubdomain | None = None
    """PriorityClass of the pods: who goes first where nodes are full. Default: the cluster's.

    Becomes: `priorityClassName` of the tier's pods.
    """
    shm_size: Quantity | None = None
    """Shared memory through which ranks talk; what is used counts towards the memory limit.
    Default: 8Gi with device cuda, else 1Gi.

    Becomes: `sizeLimit` of the volume at /dev/shm.
    """
    image: ImageReference | None = None
    """Image of this tier's engines, with the vLLM version of `engine.version`: tiers on different
    GPUs may need different builds. A change replaces both tiers, since they must agree.
    Default: `engine.image`.

    Becomes: `image` of the engine container and of the init containers; part of the pairing.
    """
    args: Arguments = ()
    """More arguments of `vllm serve` for this tier; flags that both tiers must agree on are
    refused here: set them in `engine.args`.

    Becomes: the last arguments of `vllm serve`, after those of `engine.args`.
    """
    env: Variables = ()
    """Environment variables of this tier's engines; they take the place of those of the same name
    in `engine.env`.

    Becomes: the last of `env` of the engine container.
    """
    volumes: Volumes = ()
    """Volumes of this tier's pods, beside the operator's own. Becomes: `volumes`."""
    volume_mounts: Mounts = ()
    """Where the engine container sees them. Becomes: `volumeMounts` of the engine container."""
    pod_overrides: PodOverrides | None = None
    """A patch of the tier's pods, for what no field here says."""

    cel: ClassVar[tuple[Rule, ...]] = (
        map_keys("nodeSelector", "of labels like kubernetes.io/arch"),
        *own_rules(),
        Rule(
            f"!has(self.args) || !self.args.exists(a, a.matches('{spellings(*OWNED_FLAGS)}'))",
            "args of a tier must not contain a flag that the operator sets:"
            f" {', '.join(OWNED_FLAGS)}",
        ),
        Rule(
            f"!has(self.args) || !self.args.exists(a, a.matches('{spellings(*AGREED_FLAGS)}'))",
            "args of a tier must not contain a flag on which both tiers must agree"
            f" ({', '.join(AGREED_FLAGS)}): set it in spec.engine.args",
        ),
        Rule(
            "!has(self.volumeMounts) || self.volumeMounts.all(m,"
            " has(self.volumes) && self.volumes.exists(v, v.name == m.name))",
            "each of volumeMounts must name an element of volumes",
        ),
    )
