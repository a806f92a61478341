"""LoRA adapters: the same on both tiers, loaded at the start."""

from typing import Final

from pd_operator.api.adapters import Adapter
from pd_operator.api.deployment import PDDeploymentSpec
from pd_operator.build import model_cache
from pd_operator.build.parts.part import Part, Tier

_FOLDER: Final = "/mnt/adapters"


def part(tier: Tier) -> Part:
    """Nothing without adapters.

    vLLM's block hashes have an adapter's name and path, so both are equal in both tiers.
    """
    spec = tier.deployment.spec
    adapters = spec.model.adapters
    if not adapters:
        return Part()
    paths = {each.name: _path(spec, each) for each in adapters}
    rank = spec.model.max_lora_rank
    loras = spec.model.max_loras or len(adapters)
    claims = _claims(spec)
    return Part(
        args=(
            "--enable-lora",
            "--lora-modules",
            *(f"{name}={path}" for name, path in paths.items()),
            *((f"--max-lora-rank={rank.value}",) if rank else ()),
            f"--max-loras={loras}",
        ),
        volumes=tuple(
            {
                "name": _volume(index),
                "persistentVolumeClaim": {"claimName": claim, "readOnly": True},
            }
            for index, claim in enumerate(claims)
        ),
        mounts=tuple(
            {"name": _volume(index), "mountPath": f"{_FOLDER}/{index}", "readOnly": True}
            for index in range(len(claims))
        ),
        pairing={
            "adapters": [
                [each.name, paths[each.name], each.source.pvc and each.source.pvc.claim_name]
                for each in adapters
            ],
            "maxLoraRank": rank and rank.value,
        },
    )


def _claims(spec: PDDeploymentSpec) -> tuple[str, ...]:
    """Claims that the model does not have mounted already, each once."""
    own = spec.model.source.pvc.claim_name if spec.model.source.pvc else None
    named = (each.source.pvc.claim_name for each in spec.model.adapters if each.source.pvc)
    return tuple(dict.fromkeys(claim for claim in named if claim != own))


def _volume(index: int) -> str:
    return f"adapters-{index}"


def _path(spec: PDDeploymentSpec, adapter: Adapter) -> str:
    source = adapter.source
    if source.local:
        return source.local.path
    if source.pvc:
        claims = _claims(spec)
        claim = source.pvc.claim_name
        folder = f"{_FOLDER}/{claims.index(claim)}" if claim in claims else model_cache.FOLDER
        return f"{folder}/{source.pvc.path}" if source.pvc.path else folder
    hub = source.hugging_face
    if hub is None:
        return ""  # a spec without any source is never built, only checked
    cache = model_cache.cache(spec)
    return model_cache.cached(cache, hub.id, hub.revision).link if cache else hub.id
