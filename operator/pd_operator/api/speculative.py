"""`spec.engine.speculative`: speculative decoding."""

from enum import StrEnum
from typing import Annotated, ClassVar, Final

from pydantic import Field

from pd_operator.api.base import ApiModel, Rule

_FOLDER: Final = r"(/[-A-Za-z0-9_][-A-Za-z0-9._]*)+"
_REPOSITORY: Final = r"[A-Za-z0-9][-A-Za-z0-9._]*(/[A-Za-z0-9][-A-Za-z0-9._]*)?"

DraftModel = Annotated[
    str, Field(min_length=1, max_length=512, pattern=f"^({_FOLDER}|{_REPOSITORY})$")
]
"""A Hugging Face repository, or an absolute folder in the engine container."""


class Method(StrEnum):
    """How tokens are drafted; vLLM's name for it is in METHOD_NAMES."""

    EAGLE = "Eagle"
    EAGLE3 = "Eagle3"
    MTP = "MTP"
    NGRAM = "NGram"
    DRAFT_MODEL = "DraftModel"


METHOD_NAMES: Final = {
    Method.EAGLE: "eagle",
    Method.EAGLE3: "eagle3",
    Method.MTP: "mtp",
    Method.NGRAM: "ngram",
    Method.DRAFT_MODEL: "draft_model",
}
"""`method` of vLLM's SpeculativeConfig."""

NEED_MODEL: Final = (Method.EAGLE, Method.EAGLE3, Method.DRAFT_MODEL)
"""Methods that draft with a model of their own."""


class SpeculativeSpec(ApiModel):
    """Speculative decoding: several tokens are drafted, then checked in one step.

    Methods with a model have KV of their own, so both tiers run them alike; n-grams are looked up
    by decoders alone, since prefillers write no answer. Source: vLLM's SpeculativeConfig.
    """

    method: Method
    """Who drafts: an EAGLE head, the model's own MTP layers, n-grams of the prompt, a small model.

    Becomes: `method` of `--speculative-config`.
    """
    num_speculative_tokens: Annotated[int, Field(ge=1, le=64)]
    """Tokens drafted in each step. Becomes: `num_speculative_tokens` of `--speculative-config`."""
    model: DraftModel | None = None
    """What drafts: a Hugging Face repository, or an absolute folder in the engine container.

    Needed by Eagle, Eagle3 and DraftModel. Default: with MTP the layers in the model itself.
    Becomes: `model` of `--speculative-config`.
    """
    revision: (
        Annotated[
            str, Field(min_length=1, max_length=128, pattern=r"^[A-Za-z0-9][-A-Za-z0-9._/]*$")
        ]
        | None
    ) = None
    """Branch, tag or commit of `model`. Default: the repository's default branch.

    Becomes: `revision` of `--speculative-config`.
    """
    quantization: (
        Annotated[str, Field(min_length=1, max_length=64, pattern=r"^[a-z0-9][-_a-z0-9]*$")] | None
    ) = None
    """How the weights of `model` are quantized. Default: they are not.

    Becomes: `quantization` of `--speculative-config`.
    """
    draft_tensor_parallel_size: Annotated[int, Field(ge=1, le=64)] | None = None
    """Ranks that draft: 1, or as many as both tiers have. Default: as many as the tier has.

    Becomes: `draft_tensor_parallel_size` of `--speculative-config`.
    """
    prompt_lookup_max: Annotated[int, Field(ge=1, le=64)] | None = None
    """Longest n-gram that is looked up, in tokens; with NGram. Default: promptLookupMin, else 5.

    Becomes: `prompt_lookup_max` of `--speculative-config`.
    """
    prompt_lookup_min: Annotated[int, Field(ge=1, le=64)] | None = None
    """Shortest n-gram that is looked up, in tokens; with NGram. Default: promptLookupMax, else 5.

    Becomes: `prompt_lookup_min` of `--speculative-config`.
    """

    @property
    def on_both_tiers(self) -> bool:
        """Whether prefillers run it too: whatever has KV of its own."""
        return self.method is not Method.NGRAM

    cel: ClassVar[tuple[Rule, ...]] = (
        Rule(
            "self.method in ['MTP', 'NGram'] || has(self.model)",
            "speculative.model must be set where method is Eagle, Eagle3 or DraftModel",
        ),
        Rule(
            "self.method != 'NGram' || !(has(self.model) || has(self.draftTensorParallelSize))",
            "speculative.model and draftTensorParallelSize are not allowed where method is NGram:"
            " nothing is loaded",
        ),
        Rule(
            "has(self.model) || !(has(self.revision) || has(self.quantization))",
            "speculative.revision and quantization are only allowed where model is set",
        ),
        Rule(
            "self.method == 'NGram' || !(has(self.promptLookupMax) || has(self.promptLookupMin))",
            "promptLookupMax and promptLookupMin are only allowed where method is NGram",
        ),
        Rule(
            "!has(self.promptLookupMax) || !has(self.promptLookupMin)"
            " || self.promptLookupMin <= self.promptLookupMax",
            "promptLookupMin must be at most promptLookupMax",
        ),
    )


DRAFT_RULES: Final = (
    Rule(
        "!has(self.engine.speculative)"
        " || !has(self.engine.speculative.draftTensorParallelSize)"
        " || self.engine.speculative.draftTensorParallelSize == 1"
        " || ((has(self.mode) && self.mode == 'Colocated' || has(self.prefill)"
        " && has(self.prefill.parallelism) && has(self.prefill.parallelism.tensor)"
        " && self.prefill.parallelism.tensor == self.engine.speculative.draftTensorParallelSize)"
        " && has(self.decode) && has(self.decode.parallelism)"
        " && has(self.decode.parallelism.tensor)"
        " && self.decode.parallelism.tensor == self.engine.speculative.draftTensorParallelSize)",
        "engine.speculative.draftTensorParallelSize must be 1, or equal parallelism.tensor of"
        " both tiers",
    ),
    Rule(
        "!has(self.engine.speculative) || !has(self.engine.speculative.model)"
        " || self.engine.speculative.model.startsWith('/') || !has(self.model.source)"
        " || has(self.model.source.huggingFace)",
        "engine.speculative.model must be an absolute folder where model.source is not"
        " huggingFace: the engines do not reach the hub",
    ),
)
"""Rules of the spec about `engine.speculative` and what is around it."""
