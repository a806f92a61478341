"""Presets through whole reconciles: absent, there, changed, wrong."""

from typing import Any

import pytest

from pd_operator import presets
from pd_operator.queue import Again
from tests.faults.world import World
from tests.made import NAMESPACE


@pytest.fixture
def world() -> World:
    return World()


def preset(text: str, name: str = "mine", label: str = "true") -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": {presets.LABEL: label}},
        "data": {presets.KEY: text},
    }


async def test_a_missing_preset_makes_it_invalid_and_a_later_look_finds_it(world: World) -> None:
    world.user(lambda spec: spec.update(presets=["mine"]))
    assert await world.reconcile() == Again(after=15.0)
    valid = world.condition("Valid")
    assert (valid["status"], valid["reason"]) == ("False", "PresetNotFound")
    assert "'mine'" in valid["message"]
    assert list(world.server.of("StatefulSet")) == []

    world.server.put(preset("decode: {replicas: 2}", label="no"))
    await world.reconcile()
    assert world.condition("Valid")["reason"] == "PresetNotFound"

    world.server.put(preset("proxy: {replicas: 1}"))
    await world.reconcile()
    assert world.condition("Valid")["status"] == "True"
    assert len(list(world.server.of("StatefulSet"))) == 2


async def test_a_changed_preset_changes_children_and_hash(world: World) -> None:
    world.server.put(preset("mooncake: {image: 'm:1'}"))
    world.user(lambda spec: spec.update(presets=["mine"]))
    await world.converge()
    before = world.cr["status"]["specHash"]
    assert await world.reconcile() == Again(after=15.0)
    world.server.put(preset("mode: Colocated"))
    await world.reconcile()
    assert world.cr["status"]["specHash"] != before
    assert world.cr["status"]["mode"] == "Colocated"


async def test_a_built_in_preset_needs_no_config_map_and_no_second_look(world: World) -> None:
    world.user(lambda spec: spec.update(presets=["continuous-batching"]))
    await world.converge()
    assert world.cr["status"]["mode"] == "Colocated"
    assert world.cr["status"]["specHash"]
    assert await world.reconcile() == Again()


async def test_a_merged_spec_is_checked_as_if_it_was_applied(world: World) -> None:
    world.server.put(preset("kvTransfer: {protocol: rdma}\nnonsense: 1"))
    world.user(lambda spec: spec.update(presets=["mine"]))
    await world.reconcile()
    assert world.condition("Valid")["reason"] == "InvalidSpec"
    assert "nonsense" in world.condition("Valid")["message"]
    world.server.put(preset("prefill: {resources: {limits: {x: 1}}}"))
    await world.reconcile()
    assert world.condition("Valid")["reason"] == "InvalidResource"


async def test_without_presets_there_is_no_hash(world: World) -> None:
    world.user()
    await world.reconcile()
    assert not world.cr["status"].get("specHash")
