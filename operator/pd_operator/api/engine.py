"""`spec.engine`: vLLM."""

from enum import StrEnum
from typing import Annotated, ClassVar, Final

from pydantic import Field

from pd_operator.api.base import ApiModel, DnsSubdomain, ImageReference, Rule
from pd_operator.api.options import DType, KVCacheDType, engine_rules
from pd_operator.api.pods import Variables
from pd_operator.api.speculative import SpeculativeSpec

OWNED_FLAGS: Final = (
    "--api-key",
    "--data-parallel-size",
    "--headless",
    "--host",
    "--kv-transfer-config",
    "--model",
    "--pipeline-parallel-size",
    "--port",
    "--revision",
    "--root-path",
    "--served-model-name",
    "--shutdown-timeout",
    "--ssl-certfile",
    "--ssl-keyfile",
    "--tensor-parallel-size",
    "-dp",
    "-pp",
    "-tp",
)
"""vLLM flags that the operator sets from typed fields, or that would cut the proxy off."""


def spellings(*flags: str) -> str:
    """A pattern of arguments that set one of the flags, but for shortened ones."""
    # vLLM takes _ for -, and --flag.key for one key of a JSON value.
    words = []
    for flag in flags:
        dashes = len(flag) - len(flag.lstrip("-"))
        words.append(flag[:dashes] + flag[dashes:].replace("-", "[-_]"))
    return f"^({'|'.join(words)})([=.]|$)" if len(words) > 1 else f"^{words[0]}([=.]|$)"


AGREED_FLAGS: Final = (
    "--block-size",
    "--chat-template",
    "--config-format",
    "--dtype",
    "--enable-lora",
    "--hf-overrides",
    "--kv-cache-dtype",
    "--lora-modules",
    "--max-lora-rank",
    "--max-model-len",
    "--model-impl",
    "--no-enable-lora",
    "--no-skip-tokenizer-init",
    "--no-trust-remote-code",
    "--prefix-caching-hash-algo",
    "--quantization",
    "--skip-tokenizer-init",
    "--spec-method",
    "--spec-model",
    "--spec-tokens",
    "--speculative-config",
    "--tokenizer",
    "--trust-remote-code",
    "-q",
    "-sc",
)
"""vLLM flags on which the KV's layout, the tokens or the answers depend: equal in both tiers."""

Arguments = Annotated[
    tuple[Annotated[str, Field(min_length=1, max_length=1024)], ...], Field(max_length=64)
]


class Device(StrEnum):
    """What the engine computes on."""

    CUDA = "cuda"
    CPU = "cpu"


class EngineSpec(ApiModel):
    """The vLLM of both tiers."""

    image: ImageReference
    """Container image with vLLM, and Mooncake where KV travels by it.

    Becomes: the image of the container `engine`.
    """
    version: (
        Annotated[
            str,
            Field(
                max_length=64,
                pattern=r"^[0-9]{1,4}\.[0-9]{1,4}\.[0-9]{1,4}(\+[a-z0-9]([a-z0-9.]*[a-z0-9])?)?$",
            ),
        ]
        | None
    ) = None
    """vLLM's version in the image, like `0.33.0`. Features that need a version need it set.

    Becomes: what is checked at apply; part of the pairing.
    """
    device: Device = Device.CUDA
    """What the engines compute on. Default: `cuda`.

    Becomes: with `cuda` a limit of `nvidia.com/gpu` for each rank; with `cpu` `OMP_NUM_THREADS`.
    """
    args: Arguments = ()
    """More arguments of `vllm serve`, for both tiers; flags that the operator sets are refused.

    Becomes: the last arguments of `vllm serve`, before those of the tier.
    """
    env: Variables = ()
    """Environment variables of the engines of both tiers; a tier's own of the same name wins.

    Becomes: `env` of the engine containers, after the operator's; part of the pairing.
    """

    image_pull_secrets: Annotated[
        tuple[DnsSubdomain, ...],
        Field(max_length=16, json_schema_extra={"x-kubernetes-list-type": "set"}),
    ] = ()
    """Names of Secrets with which images of private registries are pulled, in the PDDeployment's
    namespace.

    Becomes: `imagePullSecrets` of all pods: engines, proxy and Mooncake.
    """

    dtype: DType | None = None
    """Type of weights and activations. Default: `auto`, as the checkpoint says.

    Becomes: `--dtype`; part of the pairing.
    """
    max_model_len: Annotated[int, Field(ge=1, le=100_000_000)] | None = None
    """Longest prompt and answer together, in tokens. Default: what the model's config says.

    Becomes: `--max-model-len`; part of the pairing.
    """
    block_size: Annotated[int, Field(ge=1, le=65536)] | None = None
    """Tokens in one block of the KV cache. Default: what the attention backend prefers.

    Becomes: `--block-size`; part of the pairing.
    """
    kv_cache_dtype: KVCacheDType | None = None
    """Type in which KV is kept and sent. Default: `auto`, the model's.

    Becomes: `--kv-cache-dtype`; part of the pairing.
    """
    quantization: (
        Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[a-z0-9][-_a-z0-9]*$")] | None
    ) = None
    """How the weights are quantized, in vLLM's words. Default: what the model's config says.

    Becomes: `--quantization`; part of the pairing.
    """
    trust_remote_code: bool | None = None
    """Whether code that comes with the model is run. Default: false.

    Becomes: `--trust-remote-code`; part of the pairing.
    """
    speculative: SpeculativeSpec | None = None
    """Speculative decoding. Default: none."""

    cel: ClassVar[tuple[Rule, ...]] = engine_rules() + tuple(
        Rule(
            f"!has(self.args) || !self.args.exists(a, a.matches('{spellings(flag)}'))",
            f"args must not contain {flag}: the operator sets it",
        )
        for flag in OWNED_FLAGS
    )
