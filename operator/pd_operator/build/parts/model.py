"""What is served, and where its weights are."""

from typing import Final

from pd_operator.api.model import ModelSpec
from pd_operator.build.manifest import Manifest
from pd_operator.build.parts.part import Part, Tier

MODEL_FOLDER: Final = "/mnt/model"
"""Where a PersistentVolumeClaim or an image with weights is mounted."""


def part(tier: Tier) -> Part:
    """The model's arguments, its volume, and how the hub is reached."""
    model = tier.deployment.spec.model
    source = model.source
    hub = source.hugging_face
    volumes: tuple[Manifest, ...] = ()
    mounts: tuple[Manifest, ...] = ()
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
    secret: dict[str, Manifest] = {}
    if hub and hub.token_secret:
        key = {"name": hub.token_secret.name, "key": hub.token_secret.key}
        secret = {"HF_TOKEN": {"secretKeyRef": key}}
    return Part(
        args=(
            model_argument(model),
            f"--served-model-name={served_name(model)}",
            *((f"--revision={hub.revision}",) if hub and hub.revision else ()),
        ),
        env={} if hub else {"HF_HUB_OFFLINE": "1"},
        env_from=secret,
        volumes=volumes,
        mounts=mounts,
        pairing={
            "model": model_argument(model),
            "servedName": served_name(model),
            "revision": hub.revision if hub else None,
            "claim": source.pvc.claim_name if source.pvc else None,
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
    return model.id
