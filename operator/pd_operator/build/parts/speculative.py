"""Speculative decoding: vLLM's `--speculative-config`."""

from pd_operator.api.model import CacheSpec
from pd_operator.api.speculative import METHOD_NAMES, SpeculativeSpec
from pd_operator.build import model_cache
from pd_operator.build.hashing import canonical_json
from pd_operator.build.manifest import Manifest
from pd_operator.build.parts.part import Part, Tier


def part(tier: Tier) -> Part:
    """Nothing on prefillers where the method has no KV of its own.

    A prefiller that lacks the drafting layers sends no KV for them, and a decoder's drafts are then
    made from nothing: such methods are the same on both tiers, and part of the pairing.
    """
    spec = tier.deployment.spec.engine.speculative
    if spec is None:
        return Part()
    cache = model_cache.cache(tier.deployment.spec)
    argument = speculative_argument(spec, cache)
    if not spec.on_both_tiers:
        return Part() if tier.is_prefiller else Part(args=(argument,))
    return Part(args=(argument,), pairing={"speculative": speculative_config(spec, cache)})


def speculative_config(spec: SpeculativeSpec, cache: CacheSpec | None = None) -> Manifest:
    """vLLM's SpeculativeConfig, only the keys that are given; with a cache the model is there."""
    model, revision = spec.model, spec.revision
    if cache and model and not model.startswith("/"):
        model, revision = model_cache.cached(cache, model, revision).link, None
    given: Manifest = {
        "method": METHOD_NAMES[spec.method],
        "num_speculative_tokens": spec.num_speculative_tokens,
        "model": model,
        "revision": revision,
        "quantization": spec.quantization,
        "draft_tensor_parallel_size": spec.draft_tensor_parallel_size,
        "prompt_lookup_max": spec.prompt_lookup_max,
        "prompt_lookup_min": spec.prompt_lookup_min,
    }
    return {key: value for key, value in given.items() if value is not None}


def speculative_argument(spec: SpeculativeSpec, cache: CacheSpec | None = None) -> str:
    """The engine's argument."""
    return f"--speculative-config={canonical_json(speculative_config(spec, cache))}"
