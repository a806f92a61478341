"""Typed fields that are one flag of `vllm serve` each, and the flags that they stand for."""

from enum import StrEnum
from typing import Final

from pd_operator.api.base import Rule


class DType(StrEnum):
    """vLLM's ModelDType."""

    AUTO = "auto"
    BFLOAT16 = "bfloat16"
    FLOAT16 = "float16"
    FLOAT32 = "float32"


class KVCacheDType(StrEnum):
    """vLLM's CacheDType, without those of other accelerators."""

    AUTO = "auto"
    BFLOAT16 = "bfloat16"
    FLOAT16 = "float16"
    FP8 = "fp8"
    FP8_E4M3 = "fp8_e4m3"
    FP8_E5M2 = "fp8_e5m2"
    FP8_DS_MLA = "fp8_ds_mla"
    NVFP4 = "nvfp4"


ENGINE_FLAGS: Final = {
    "dtype": ("--dtype",),
    "maxModelLen": ("--max-model-len",),
    "blockSize": ("--block-size",),
    "kvCacheDtype": ("--kv-cache-dtype",),
    "quantization": ("--quantization", "-q"),
    "trustRemoteCode": ("--trust-remote-code", "--no-trust-remote-code"),
    "speculative": ("--speculative-config", "-sc", "--spec-method", "--spec-model",
                    "--spec-tokens"),
}  # fmt: skip
"""Fields of `spec.engine` and all flags that say the same."""

TIER_FLAGS: Final = {
    "gpuMemoryUtilization": ("--gpu-memory-utilization", "--device-memory-utilization"),
    "maxNumSeqs": ("--max-num-seqs",),
    "maxNumBatchedTokens": ("--max-num-batched-tokens",),
    "enforceEager": ("--enforce-eager", "--no-enforce-eager"),
    "prefixCaching": ("--enable-prefix-caching", "--no-enable-prefix-caching"),
}
"""Fields of `spec.prefill` and `spec.decode` and all flags that say the same."""


def engine_rules() -> tuple[Rule, ...]:
    """Rules of `spec.engine`: a typed field and its flag in `args` exclude one another."""
    return tuple(
        Rule(
            f"!has(self.{field}) || !has(self.args) || !{_exists('self.args', flags)}",
            f"args must not contain {flags[0]} where {field} is set: remove one of both",
        )
        for field, flags in ENGINE_FLAGS.items()
    )


def own_rules() -> tuple[Rule, ...]:
    """Rules of a tier: a typed field and its flag in the tier's own `args`."""
    return tuple(
        Rule(
            f"!has(self.{field}) || !has(self.args) || !{_exists('self.args', flags)}",
            f"args of a tier must not contain {flags[0]} where {field} is set: remove one of both",
        )
        for field, flags in TIER_FLAGS.items()
    )


def tier_rules() -> tuple[Rule, ...]:
    """Rules of the spec: a typed field of a tier and its flag in `engine.args`."""
    return tuple(
        Rule(
            f"!has(self.engine.args) || !{_exists('self.engine.args', flags)} || !("
            f"has(self.prefill) && has(self.prefill.{field})"
            f" || has(self.decode) && has(self.decode.{field}))",
            f"engine.args must not contain {flags[0]} where prefill.{field} or decode.{field} is"
            " set: remove one of both",
        )
        for field, flags in TIER_FLAGS.items()
    )


def _exists(args: str, flags: tuple[str, ...]) -> str:
    names = "|".join(_pattern(flag) for flag in flags)
    return f"{args}.exists(a, a.matches('^({names})([=.]|$)'))"


def _pattern(flag: str) -> str:
    # vLLM takes _ for - within the name of a flag.
    dashes = len(flag) - len(flag.lstrip("-"))
    return flag[:dashes] + flag[dashes:].replace("-", "[-_]")
