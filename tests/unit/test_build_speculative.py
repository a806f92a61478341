"""vLLM's `--speculative-config` in each tier."""

import json
from typing import Any

import pytest

from pd_operator.build.pairing import pairing
from pd_shared.labels import DECODER, PREFILLER
from tests.specs import CUDA, at, merged, part

FLAG = "--speculative-config="


def spec(**fields: Any) -> dict[str, Any]:
    return merged(CUDA, at("engine.speculative", {"numSpeculativeTokens": 3, **fields}))


def config(of: dict[str, Any], component: str) -> Any:
    found = [a.removeprefix(FLAG) for a in part(of, component).args if a.startswith(FLAG)]
    return json.loads(found[0]) if found else None


@pytest.mark.parametrize(
    ("given", "rendered"),
    [
        ({"method": "Eagle", "model": "org/a"}, {"method": "eagle", "model": "org/a"}),
        (
            {"method": "Eagle3", "model": "org/a", "revision": "v1", "quantization": "fp8"},
            {"method": "eagle3", "model": "org/a", "revision": "v1", "quantization": "fp8"},
        ),
        ({"method": "MTP"}, {"method": "mtp"}),
        (
            {"method": "DraftModel", "model": "/models/small", "draftTensorParallelSize": 1},
            {
                "method": "draft_model",
                "model": "/models/small",
                "draft_tensor_parallel_size": 1,
            },
        ),
    ],
)
def test_methods_with_a_model_are_the_same_on_both_tiers(
    given: dict[str, Any], rendered: dict[str, Any]
) -> None:
    of = spec(**given)
    expected = {"num_speculative_tokens": 3, **rendered}
    assert config(of, PREFILLER) == config(of, DECODER) == expected
    assert pairing(part(of, PREFILLER)) == pairing(part(of, DECODER))
    assert pairing(part(of, DECODER)) != pairing(part(CUDA, DECODER))


def test_ngrams_are_looked_up_by_decoders_alone() -> None:
    of = spec(method="NGram", promptLookupMax=4, promptLookupMin=2)
    assert config(of, PREFILLER) is None
    assert config(of, DECODER) == {
        "method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 4,
        "prompt_lookup_min": 2,
    }  # fmt: skip
    assert part(of, PREFILLER).args == part(CUDA, PREFILLER).args
    assert pairing(part(of, DECODER)) == pairing(part(CUDA, DECODER)), "no KV differs"


def test_nothing_without_the_field() -> None:
    assert config(CUDA, DECODER) is None
