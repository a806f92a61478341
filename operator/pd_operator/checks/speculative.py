"""`spec.engine.speculative`: fields that need or exclude one another."""

from collections.abc import Iterator
from typing import Final

from pd_operator.api.deployment import PDDeployment
from pd_operator.api.speculative import NEED_MODEL, Method, SpeculativeSpec
from pd_operator.checks.problem import Problem

_FIELD: Final = "spec.engine.speculative"


def speculative_problems(deployment: PDDeployment) -> Iterator[Problem]:
    """Problems of speculative decoding where it is on."""
    spec = deployment.spec.engine.speculative
    if spec is None:
        return
    for field, message in (*_shape(spec), *_around(deployment, spec)):
        path = f"{_FIELD}.{field}"
        yield Problem("InvalidSpeculative", path, f"{path} {message}")


def _shape(spec: SpeculativeSpec) -> Iterator[tuple[str, str]]:
    ngram = spec.method is Method.NGRAM
    if spec.method in NEED_MODEL and spec.model is None:
        yield "model", f"must be set where {_FIELD}.method is {spec.method}"
    if ngram and spec.model is not None:
        yield "model", f"must not be set where {_FIELD}.method is NGram: nothing is loaded"
    if ngram and spec.draft_tensor_parallel_size is not None:
        yield (
            "draftTensorParallelSize",
            f"must not be set where {_FIELD}.method is NGram: nothing is loaded",
        )
    for field, value in (("revision", spec.revision), ("quantization", spec.quantization)):
        if value is not None and spec.model is None:
            yield field, f"is only allowed where {_FIELD}.model is set"
    low, high = spec.prompt_lookup_min, spec.prompt_lookup_max
    for field, size in (("promptLookupMax", high), ("promptLookupMin", low)):
        if size is not None and not ngram:
            yield field, f"is only allowed where {_FIELD}.method is NGram"
    if low is not None and high is not None and low > high:
        yield "promptLookupMin", f"is {low}; it must be at most {_FIELD}.promptLookupMax, {high}"


def _around(deployment: PDDeployment, spec: SpeculativeSpec) -> Iterator[tuple[str, str]]:
    decode = deployment.spec.decode.parallelism.tensor
    colocated = deployment.spec.colocated
    prefill = decode if colocated else deployment.spec.prefill.parallelism.tensor
    size = spec.draft_tensor_parallel_size
    if size is not None and size != 1 and not prefill == decode == size:
        yield (
            "draftTensorParallelSize",
            f"is {size}; it must be 1, or equal parallelism.tensor of both tiers"
            f" ({prefill} and {decode})",
        )
    hub = deployment.spec.model.source.hugging_face
    if spec.model is not None and not spec.model.startswith("/") and hub is None:
        yield (
            "model",
            f"is {spec.model!r}; it must be an absolute folder where spec.model.source is not"
            " huggingFace: the engines do not reach the hub",
        )
