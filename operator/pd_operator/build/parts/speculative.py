"""Speculative decoding: vLLM's `--speculative-config`."""

from pd_operator.api.speculative import METHOD_NAMES, SpeculativeSpec
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
    if not spec.on_both_tiers:
        return Part() if tier.is_prefiller else Part(args=(speculative_argument(spec),))
    return Part(
        args=(speculative_argument(spec),), pairing={"speculative": speculative_config(spec)}
    )


def speculative_config(spec: SpeculativeSpec) -> Manifest:
    """vLLM's SpeculativeConfig, only the keys that are given."""
    given: Manifest = {
        "method": METHOD_NAMES[spec.method],
        "num_speculative_tokens": spec.num_speculative_tokens,
        "model": spec.model,
        "revision": spec.revision,
        "quantization": spec.quantization,
        "draft_tensor_parallel_size": spec.draft_tensor_parallel_size,
        "prompt_lookup_max": spec.prompt_lookup_max,
        "prompt_lookup_min": spec.prompt_lookup_min,
    }
    return {key: value for key, value in given.items() if value is not None}


def speculative_argument(spec: SpeculativeSpec) -> str:
    """The engine's argument."""
    return f"--speculative-config={canonical_json(speculative_config(spec))}"
