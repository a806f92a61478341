"""No two ports of an engine pod are the same, whatever its shape."""

import re
from typing import Any

import pytest

from pd_operator.build.port_plan import port_plan
from pd_shared.labels import DECODER, PREFILLER
from tests.specs import CUDA, at, merged, part, tier

SHAPES: list[dict[str, int]] = [
    {},
    {"tensor": 8},
    {"data": 512},
    {"data": 512, "nodes": 64},
    {"data": 64, "nodes": 64},
    {"tensor": 8, "pipeline": 2, "nodes": 4},
]
CONNECTORS = ["Mooncake", "Nixl", "Multi"]


def spec(connector: str, shape: dict[str, int], **transfer: Any) -> dict[str, Any]:
    base = merged(CUDA, {"kvTransfer": {"connector": connector, **transfer}})
    return merged(base, {"prefill": {"parallelism": shape}, "decode": {"parallelism": shape}})


@pytest.mark.parametrize("connector", CONNECTORS)
@pytest.mark.parametrize("component", [PREFILLER, DECODER])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_ports_never_collide(connector: str, component: str, shape: dict[str, int]) -> None:
    of = tier(spec(connector, shape), component)
    for node_rank in range(shape.get("nodes", 1)):
        plan = port_plan(of, node_rank)
        assert len({port.number for port in plan}) == len(plan)
        assert len({port.name for port in plan}) == len(plan)
        for port in plan:
            assert 1024 <= port.number <= 65535
            assert len(port.name) <= 15
            assert re.fullmatch("[a-z0-9]([-a-z0-9]*[a-z0-9])?", port.name)


@pytest.mark.parametrize("connector", CONNECTORS)
@pytest.mark.parametrize("component", [PREFILLER, DECODER])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_container_ports_are_in_the_plan(
    connector: str, component: str, shape: dict[str, int]
) -> None:
    given = spec(connector, shape)
    planned = {port.number for port in port_plan(tier(given, component))}
    assert {number for _, number in part(given, component).ports} <= planned


def test_a_decoder_that_sends_has_a_bootstrap_server_too() -> None:
    given = spec("Mooncake", {}, symmetric=True)
    plan = {port.number for port in port_plan(tier(given, DECODER))}
    assert {number for _, number in part(given, DECODER).ports} == plan == {8000, 8998}


def test_ranks_of_nixl_are_counted_over_the_replica() -> None:
    of = tier(spec("Nixl", {"data": 4, "nodes": 2}), DECODER)
    assert [port.number for port in port_plan(of, 1) if port.name.startswith("nixl")] == [
        5602, 5603,
    ]  # fmt: skip
    leader = {port.name: port.number for port in port_plan(of)}
    assert (leader["data-parallel"], leader["group"]) == (29550, 8997)
    tensor = {port.name for port in port_plan(tier(at_nodes(), DECODER))}
    assert "master" in tensor
    assert "data-parallel" not in tensor


def at_nodes() -> dict[str, Any]:
    return merged(CUDA, at("decode.parallelism", {"tensor": 2, "nodes": 2}))
