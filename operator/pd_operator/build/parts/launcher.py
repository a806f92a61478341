"""Process 1 of engine pods: the launcher, which starts vLLM and passes signals on to it."""

from typing import Final

from pd_operator.build import names
from pd_operator.build.launcher import COMMAND, launcher_mount, launcher_volume
from pd_operator.build.parts.parallelism import leader_args, worker_args
from pd_operator.build.parts.part import Part, Tier
from pd_operator.build.parts.preflight import ENVIRONMENT, checked
from pd_shared import labels, ports

VLLM: Final = ("vllm", "serve")
"""Always said: what the image's entry point is does not matter."""


def part(tier: Tier) -> Part:
    """The container's command, the launcher's files, and what joins the pods of a group.

    vLLM by itself is deaf to SIGTERM while it loads: a pod that is deleted then would hold its
    GPUs for the whole grace period.
    """
    parallelism = tier.spec.parallelism
    grouped = parallelism.grouped
    return Part(
        container={"command": [*COMMAND, "launch", *_preflight(tier), *_group(tier), "--", *VLLM]},
        # Under hostNetwork the host's name is not the pod's.
        first_env={"POD_NAME": {"fieldRef": {"fieldPath": "metadata.name"}}} if grouped else {},
        volumes=(launcher_volume(tier.name),),
        mounts=(launcher_mount(),),
        ports=(("rendezvous", ports.GROUP), ("group", ports.GROUP_HEALTH)) if grouped else (),
        annotations={labels.GROUP_SIZE: str(parallelism.nodes)} if grouped else {},
    )


def _preflight(tier: Tier) -> tuple[str, ...]:
    return (f"--environment={ENVIRONMENT}",) if checked(tier.deployment.spec) else ()


def _group(tier: Tier) -> tuple[str, ...]:
    parallelism = tier.spec.parallelism
    if not parallelism.grouped:
        return ()
    return (
        f"--group-size={parallelism.nodes}",
        f"--service={names.tier(tier.name, tier.component)}",
        f"--namespace={tier.deployment.metadata.namespace}",
        f"--cluster-domain={tier.cluster_domain}",
        f"--ranks-per-node={parallelism.data_per_pod}",
        *(f"--leader-arg={argument}" for argument in leader_args(tier)),
        *(f"--worker-arg={argument}" for argument in worker_args(tier)),
    )
