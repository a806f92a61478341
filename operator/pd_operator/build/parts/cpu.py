"""Engines that compute on CPUs."""

from pd_operator.api.engine import Device
from pd_operator.api.values import quantity
from pd_operator.build.parts.part import Part, Tier


def part(tier: Tier) -> Part:
    """Threads; nothing on other devices."""
    if tier.deployment.spec.engine.device is not Device.CPU:
        return Part()
    # The image's defaults suit one thread; how many there are is known here alone.
    resources = tier.spec.resources
    cpus = resources.limits.get("cpu") or resources.requests.get("cpu") or "1"
    threads = int(quantity(cpus)) // tier.spec.parallelism.ranks_per_pod
    return Part(
        env={
            # The kubelet decides which cores a pod gets; threads must not be bound to others.
            "VLLM_CPU_OMP_THREADS_BIND": "nobind",
            "OMP_NUM_THREADS": str(max(1, threads)),
        }
    )
