"""`spec.model.adapters`: names, sources, and the same flags in arguments."""

from collections.abc import Iterator
from typing import Final

from pd_operator.api.adapters import LORA_FLAGS, Adapter
from pd_operator.api.deployment import PDDeployment
from pd_operator.api.model import ModelSpec
from pd_operator.checks.flags import flag_name, sets
from pd_operator.checks.problem import Problem

_FIELD: Final = "spec.model.adapters"
_REASON: Final = "InvalidAdapter"


def adapter_problems(deployment: PDDeployment) -> Iterator[Problem]:
    """Problems of LoRA adapters, and of what goes with them."""
    spec, model = deployment.spec, deployment.spec.model
    if not model.adapters:
        for field, value in (("maxLoraRank", model.max_lora_rank), ("maxLoras", model.max_loras)):
            if value is not None:
                path = f"spec.model.{field}"
                yield Problem(_REASON, path, f"{path} is only allowed where {_FIELD} is set")
        return
    yield from _names(model)
    for index, adapter in enumerate(model.adapters):
        yield from _source(f"{_FIELD}[{index}].source", adapter, model)
    for path, arguments in (
        ("spec.engine.args", spec.engine.args),
        ("spec.prefill.args", spec.prefill.args),
        ("spec.decode.args", spec.decode.args),
    ):
        for index, argument in enumerate(arguments):
            name = flag_name(argument)
            if name is None:
                continue
            if flag := next((one for one in LORA_FLAGS if sets(name, one)), None):
                field = f"{path}[{index}]"
                text = f"{field} must not set {flag}: {_FIELD} sets it; remove one of both"
                yield Problem("OptionGivenTwice", field, text)


def _names(model: ModelSpec) -> Iterator[Problem]:
    seen = {model.served_name or model.id}
    for index, adapter in enumerate(model.adapters):
        if adapter.name in seen:
            field = f"{_FIELD}[{index}].name"
            text = f"{field} is {adapter.name}; it must differ from the others and the model's name"
            yield Problem(_REASON, field, text)
        seen.add(adapter.name)


def _source(path: str, adapter: Adapter, model: ModelSpec) -> Iterator[Problem]:
    source, hub = adapter.source, model.source.hugging_face
    if sum(one is not None for one in (source.hugging_face, source.pvc, source.local)) != 1:
        text = f"{path} must set exactly one of huggingFace, pvc, local"
        yield Problem(_REASON, path, text)
    if source.hugging_face is None:
        return
    if hub is None:
        text = (
            f"{path}.huggingFace is only allowed where spec.model.source is huggingFace: the"
            " engines do not reach the hub"
        )
        yield Problem(_REASON, f"{path}.huggingFace", text)
    elif source.hugging_face.revision and not hub.cache:
        field = f"{path}.huggingFace.revision"
        text = f"{field} is only allowed with spec.model.source.huggingFace.cache: vLLM takes none"
        yield Problem(_REASON, field, text)
