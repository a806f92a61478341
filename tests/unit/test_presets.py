"""Presets are laid under the spec in a documented order, and wrong ones are named."""

import copy
from typing import Any

import pytest
import yaml

from pd_operator import presets
from pd_operator.api.deployment import ServingMode
from pd_operator.presets import PresetError, built_in, laid, merge
from pd_operator.validate import problems
from tests.specs import CUDA, children, deployment, merged

CPU_ENGINE = {"model": {"id": "m"}, "engine": {"image": "vllm-cpu:1"}}


@pytest.mark.parametrize(
    ("under", "over", "expected"),
    [
        ({"a": 1, "b": 2}, {"b": 3, "c": 4}, {"a": 1, "b": 3, "c": 4}),
        ({"a": {"x": 1, "y": 2}}, {"a": {"y": 3}}, {"a": {"x": 1, "y": 3}}),
        ({"a": [1, 2]}, {"a": [3]}, {"a": [3]}),
        ({"a": 1, "b": 2}, {"a": None}, {"b": 2}),
        ({"a": {"x": 1}}, {"a": {"x": None}}, {"a": {}}),
        ({}, {"a": {"x": None, "y": 1}}, {"a": {"y": 1}}),
        ({"a": 1}, {"a": {"x": 2}}, {"a": {"x": 2}}),
        ({"a": {"x": 2}}, {"a": 1}, {"a": 1}),
    ],
)
def test_laying_over(under: dict[str, Any], over: dict[str, Any], expected: dict[str, Any]) -> None:
    before = copy.deepcopy((under, over))
    assert laid(under, over) == expected
    assert (under, over) == before


def test_later_presets_win_and_the_spec_wins_over_all() -> None:
    given = {
        "one": "decode: {replicas: 1}\nprefill: {replicas: 1}\nproxy: {replicas: 1}",
        "two": "decode: {replicas: 2}\nprefill: {replicas: 2}",
    }
    spec = {**CUDA, "presets": ["one", "two"], "decode": {"replicas": 3}}
    found = merge(spec, given)
    replicas = {tier: found.spec[tier]["replicas"] for tier in ("proxy", "prefill", "decode")}
    assert replicas == {"proxy": 1, "prefill": 2, "decode": 3}
    assert found.spec["presets"] == ["one", "two"]


def test_required_fields_may_come_from_a_preset() -> None:
    given = {"base": yaml.safe_dump(CUDA)}
    found = merge({"presets": ["base"]}, given)
    assert children(deployment(found.spec)).keys() == children(deployment(CUDA)).keys()


def test_the_hash_is_of_the_merged_spec_alone() -> None:
    written_out = merge({**CUDA, "presets": [], "proxy": {"replicas": 1}}, {})
    by_preset = merge({**CUDA, "presets": ["p"]}, {"p": "proxy: {replicas: 1}"})
    other = merge({**CUDA, "presets": ["p"]}, {"p": "proxy: {replicas: 2}"})
    assert written_out.hash == by_preset.hash != other.hash
    assert by_preset.live
    assert not written_out.live


@pytest.mark.parametrize("name", built_in())
def test_built_in_presets_make_a_good_spec(name: str) -> None:
    found = merge({**merged(CUDA, CPU_ENGINE), "presets": [name]}, {})
    assert not found.live
    assert problems(deployment(found.spec)) == ()
    assert children(deployment(found.spec))


def test_built_in_presets_are_what_they_are_called() -> None:
    assert set(built_in()) == {
        "single-gpu", "continuous-batching", "pd-mooncake-rdma", "moe-wide-ep", "laptop-cpu",
    }  # fmt: skip

    def spec(name: str) -> Any:
        return deployment(merge({**CPU_ENGINE, "presets": [name]}, {}).spec).spec

    assert spec("single-gpu").mode is ServingMode.COLOCATED
    assert spec("continuous-batching").mode is ServingMode.COLOCATED
    assert spec("pd-mooncake-rdma").kv_transfer.protocol.value == "rdma"
    assert spec("laptop-cpu").engine.device.value == "cpu"
    assert spec("moe-wide-ep").decode.parallelism.expert.enabled


def test_the_name_of_a_built_in_preset_means_that_one() -> None:
    spec = {**CUDA, "presets": ["single-gpu", "mine"]}
    assert presets.outside(spec) == ("mine",)
    found = merge(spec, {"single-gpu": "mode: Disaggregated", "mine": "{}"})
    assert found.spec["mode"] == "Colocated"


def test_an_unknown_name_is_told_with_all_that_are_built_in() -> None:
    with pytest.raises(PresetError) as error:
        merge({**CUDA, "presets": ["absent"]}, {})
    assert error.value.reason == "PresetNotFound"
    assert "'absent'" in str(error.value)
    assert all(name in str(error.value) for name in built_in())


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: [", "is no YAML"),
        ("- a", "must be a map"),
        ("", "must be a map"),
        ("1: x", "must be a map"),
        ("presets: [b]", "do not nest"),
        ("a: &x [1]\nb: *x", "aliases"),
        ("a: 2026-01-01", "no field takes"),
        ("a: .nan", "no field takes"),
        ("# " + "x" * presets.MAX_LENGTH, "characters"),
    ],
)
def test_a_wrong_preset_is_named(text: str, words: str) -> None:
    with pytest.raises(PresetError, match=words) as error:
        merge({**CUDA, "presets": ["mine"]}, {"mine": text})
    assert error.value.reason == "PresetInvalid"
    assert "'mine'" in str(error.value)


def test_only_a_labelled_config_map_is_a_preset() -> None:
    data = {presets.KEY: "a: 1"}
    labelled = {"metadata": {"labels": {presets.LABEL: "true"}}, "data": data}
    assert presets.of_config_map(labelled) == "a: 1"
    for labels in ({}, None, {presets.LABEL: "false"}):
        assert presets.of_config_map({"metadata": {"labels": labels}, "data": data}) is None


@pytest.mark.parametrize("spec", [None, {}, {"presets": None}, {"presets": "a"}, {"presets": [1]}])
def test_what_is_no_list_of_names_names_none(spec: Any) -> None:
    assert presets.listed(spec) == ()
