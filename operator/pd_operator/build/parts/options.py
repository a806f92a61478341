"""Typed options of the engine: one flag of `vllm serve` each."""

from collections.abc import Iterator, Mapping
from typing import Any

from pd_operator.build.parts.part import Part, Tier


def part(tier: Tier) -> Part:
    """Only the options that are given: vLLM has defaults of its own."""
    engine, spec = tier.deployment.spec.engine, tier.spec
    agreed = {
        "dtype": engine.dtype and engine.dtype.value,
        "max-model-len": engine.max_model_len,
        "block-size": engine.block_size,
        "kv-cache-dtype": engine.kv_cache_dtype and engine.kv_cache_dtype.value,
        "quantization": engine.quantization,
        "trust-remote-code": engine.trust_remote_code,
    }
    own = {
        "gpu-memory-utilization": spec.gpu_memory_utilization,
        "max-num-seqs": spec.max_num_seqs,
        "max-num-batched-tokens": spec.max_num_batched_tokens,
        "enforce-eager": spec.enforce_eager,
        "enable-prefix-caching": spec.prefix_caching,
    }
    flags = tuple(_flags(agreed))
    return Part(args=(*flags, *_flags(own)), pairing={"options": list(flags)})


def _flags(options: Mapping[str, Any]) -> Iterator[str]:
    for name, value in options.items():
        if isinstance(value, bool):
            yield f"--{name}" if value else f"--no-{name}"
        elif isinstance(value, float):
            yield f"--{name}={value:g}"
        elif value is not None:
            yield f"--{name}={value}"
