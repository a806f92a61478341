"""The command line and environment of vLLM in a tier's pods."""

from typing import Final

from pd_operator.api.deployment import PDDeployment
from pd_operator.api.engine import Device, Protocol
from pd_operator.api.model import ModelSpec
from pd_operator.api.tier import TierSpec
from pd_operator.api.values import quantity
from pd_operator.build import store
from pd_operator.build.kv_transfer import devices, kv_transfer_config
from pd_operator.build.manifest import Manifest
from pd_operator.build.volumes import TMP
from pd_shared import labels, ports

COMMAND: Final = ("vllm", "serve")
"""Always set: what the image's entry point is does not matter."""

SHUTDOWN_SECONDS: Final = 120
"""How long vLLM lets running requests end after SIGTERM."""

ABORT_REQUEST_SECONDS: Final = 120
"""How long a prefiller keeps KV that no decoder fetches."""

MODEL_FOLDER: Final = "/mnt/model"
"""Where a PersistentVolumeClaim with weights is mounted."""


def tier_spec(deployment: PDDeployment, component: str) -> TierSpec:
    """The spec of the tier `component`: prefiller or decoder."""
    spec = deployment.spec
    return spec.prefill if component == labels.PREFILLER else spec.decode


def model_argument(model: ModelSpec) -> str:
    """What `vllm serve` loads: a Hugging Face repository, or a folder in the container."""
    if model.source.local:
        return model.source.local.path
    if model.source.pvc:
        path = model.source.pvc.path
        return f"{MODEL_FOLDER}/{path}" if path else MODEL_FOLDER
    return model.id


def arguments(deployment: PDDeployment, component: str) -> list[str]:
    """The arguments after `vllm serve`; the user's own come last."""
    model = deployment.spec.model
    source = model.source.hugging_face
    return [
        model_argument(model),
        f"--served-model-name={model.served_name or model.id}",
        *([f"--revision={source.revision}"] if source and source.revision else []),
        # The Mooncake bootstrap server listens on IPv4 alone, so the engine does too.
        "--host=0.0.0.0",
        f"--port={ports.HTTP}",
        f"--tensor-parallel-size={tier_spec(deployment, component).parallelism.tensor}",
        f"--kv-transfer-config={kv_transfer_config(deployment, component)}",
        f"--shutdown-timeout={SHUTDOWN_SECONDS}",
        *deployment.spec.engine.args,
    ]


def environment(deployment: PDDeployment, component: str) -> list[Manifest]:
    """The engine container's environment."""
    values = {
        "HOME": TMP,
        # A numeric user has no name in the image; libraries that ask for one fail without this.
        "USER": "engine",
        "PYTHONHASHSEED": "0",
        "VLLM_NO_USAGE_STATS": "1",
        "DO_NOT_TRACK": "1",
        "VLLM_MOONCAKE_ABORT_REQUEST_TIMEOUT": str(ABORT_REQUEST_SECONDS),
        **_mooncake(deployment),
    }
    if component == labels.PREFILLER:
        values["VLLM_MOONCAKE_BOOTSTRAP_PORT"] = str(ports.BOOTSTRAP)
    if deployment.spec.engine.device is Device.CPU:
        values |= _cpu(tier_spec(deployment, component))
    source = deployment.spec.model.source.hugging_face
    if source is None:
        values["HF_HUB_OFFLINE"] = "1"
    variables: list[Manifest] = [
        # The address that Mooncake tells its peers; it must be known before anything else.
        {"name": "VLLM_HOST_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        *({"name": name, "value": value} for name, value in sorted(values.items())),
    ]
    if source and source.token_secret:
        secret = {"name": source.token_secret.name, "key": source.token_secret.key}
        variables.append({"name": "HF_TOKEN", "valueFrom": {"secretKeyRef": secret}})
    return variables


def _mooncake(deployment: PDDeployment) -> dict[str, str]:
    values: dict[str, str] = {}
    if deployment.spec.kv_transfer.protocol is Protocol.RDMA:
        # Without it Mooncake falls back to TCP where it finds no device.
        values["MC_FORCE_HCA"] = "1"
        if devices(deployment):
            values["MC_TE_FILTERS"] = devices(deployment)
    else:
        # Without it Mooncake takes RDMA wherever it finds a device.
        values["MC_FORCE_TCP"] = "1"
    if deployment.spec.mooncake.store.enabled:
        values["MOONCAKE_CONFIG_PATH"] = f"{store.CONFIG_FOLDER}/{store.CONFIG_KEY}"
    return values


def _cpu(tier: TierSpec) -> dict[str, str]:
    # The image's defaults suit one thread; how many there are is known here alone.
    cpus = tier.resources.limits.get("cpu") or tier.resources.requests.get("cpu") or "1"
    return {
        # The kubelet decides which cores a pod gets; threads must not be bound to others.
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "OMP_NUM_THREADS": str(max(1, int(quantity(cpus)) // tier.parallelism.tensor)),
    }
