"""What is served, and where its weights are."""

from typing import Final

from pd_operator.api.model import ModelSpec
from pd_operator.build import model_cache
from pd_operator.build.launcher import COMMAND, launcher_mount
from pd_operator.build.manifest import Manifest
from pd_operator.build.parts.part import Part, Tier
from pd_operator.build.security import restricted_container

MODEL_FOLDER: Final = model_cache.FOLDER
"""Where a PersistentVolumeClaim or an image with weights is mounted."""

_WAITING: Final = "wait-for-model"


def part(tier: Tier) -> Part:
    """The model's arguments, its volume, and how the hub is reached."""
    model = tier.deployment.spec.model
    source = model.source
    hub = source.hugging_face
    revision = hub.revision if hub and not hub.cache else None
    volumes: tuple[Manifest, ...] = ()
    mounts: tuple[Manifest, ...] = ()
    claim: Manifest = {"claimName": None}
    if source.pvc:
        claim = {"claimName": source.pvc.claim_name, "readOnly": True}
        volumes = ({"name": "model", "persistentVolumeClaim": claim},)
        mounts = ({"name": "model", "mountPath": MODEL_FOLDER, "readOnly": True},)
    if source.oci:
        image = {"reference": source.oci.image}
        if source.oci.pull_policy:
            image["pullPolicy"] = source.oci.pull_policy
        volumes = ({"name": "model", "image": image},)
        mounts = ({"name": "model", "mountPath": MODEL_FOLDER, "readOnly": True},)
    cached = model_cache.repositories(tier.deployment.spec)
    init: tuple[Manifest, ...] = ()
    if hub and hub.cache:
        claim = {"claimName": hub.cache.claim_name}
        volumes = ({"name": "model", "persistentVolumeClaim": claim},)
        mounts = ({"name": "model", "mountPath": MODEL_FOLDER, "readOnly": True},)
        init = (_wait(tier.image, cached, mounts[0]),)
    secret: dict[str, Manifest] = {}
    if hub and hub.token_secret and not hub.cache:
        key = {"name": hub.token_secret.name, "key": hub.token_secret.key}
        secret = {"HF_TOKEN": {"secretKeyRef": key}}
    return Part(
        args=(
            model_argument(model),
            f"--served-model-name={served_name(model)}",
            *((f"--revision={revision}",) if revision else ()),
        ),
        env={} if hub and not hub.cache else {"HF_HUB_OFFLINE": "1"},
        env_from=secret,
        volumes=volumes,
        mounts=mounts,
        init_containers=init,
        pairing={
            "model": model_argument(model),
            "servedName": served_name(model),
            "revision": revision,
            "claim": claim["claimName"],
            "oci": source.oci.image if source.oci else None,
        },
    )


def served_name(model: ModelSpec) -> str:
    """The name that clients send as `model`."""
    return model.served_name or model.id


def model_argument(model: ModelSpec) -> str:
    """What `vllm serve` loads: a Hugging Face repository, or a folder in the container."""
    if model.source.local:
        return model.source.local.path
    if volume := model.source.pvc or model.source.oci:
        path = volume.path
        return f"{MODEL_FOLDER}/{path}" if path else MODEL_FOLDER
    hub = model.source.hugging_face
    if hub and hub.cache:
        return model_cache.cached(hub.cache, model.id, hub.revision).link
    return model.id


def _wait(image: str, cached: tuple[model_cache.Cached, ...], mount: Manifest) -> Manifest:
    """An init container that ends when all is downloaded: vLLM would end without its model."""
    return {
        "name": _WAITING,
        "image": image,
        "command": [*COMMAND, _WAITING, *(f"--link={each.link}" for each in cached)],
        "resources": {
            "requests": {"cpu": "10m", "memory": "32Mi"},
            "limits": {"memory": "128Mi"},
        },
        "securityContext": restricted_container(),
        "volumeMounts": [launcher_mount(), dict(mount)],
    }
