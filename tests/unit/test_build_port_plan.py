"""No two ports of an engine pod are the same, whatever its shape."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pd_operator.build.port_plan import port_plan
from pd_shared.labels import DECODER, PREFILLER
from tests.specs import CUDA, at, engine_pod, merged, part, tier

SHAPES: list[dict[str, int]] = [
    {},
    {"tensor": 8},
    {"data": 512},
    {"data": 512, "nodes": 64},
    {"data": 64, "nodes": 64},
    {"tensor": 8, "pipeline": 2, "nodes": 4},
]
CONNECTORS = ["Mooncake", "Nixl", "Multi"]
ALL = [*CONNECTORS, "MooncakeStore", "LMCache"]


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
    of = spec(connector, shape)
    planned = {port.number for port in port_plan(tier(of, component))}
    assert {number for _, number in part(of, component).ports} <= planned


def host_pod(of: dict[str, Any], component: str) -> list[int]:
    """Ports that a pod of the tier takes on its node, as the scheduler sees them."""
    pod = engine_pod(merged(of, at("rdma.hostNetwork", True)), component)
    assert pod["hostNetwork"] is True
    (container,) = pod["containers"]
    names = [port["name"] for port in container["ports"]]
    assert len(set(names)) == len(names)
    assert all(port["hostPort"] == port["containerPort"] for port in container["ports"])
    return [port["hostPort"] for port in container["ports"]]


@pytest.mark.parametrize("connector", ALL)
@pytest.mark.parametrize("component", [PREFILLER, DECODER])
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_a_pod_on_the_nodes_network_declares_all_ports_of_all_its_ranks(
    connector: str, component: str, shape: dict[str, int]
) -> None:
    of = spec(connector, shape)
    declared = host_pod(of, component)
    assert len(set(declared)) == len(declared), "the kernel gives a port once"
    for node_rank in range(shape.get("nodes", 1)):
        assert {port.number for port in port_plan(tier(of, component), node_rank)} <= set(declared)
    inside = engine_pod(of, component)["containers"][0]["ports"]
    assert {port["containerPort"] for port in inside} <= set(declared)


one_pod = st.tuples(
    st.sampled_from(ALL),
    st.sampled_from(SHAPES),
    st.booleans(),
    st.sampled_from([PREFILLER, DECODER]),
)


@given(one_pod, one_pod)
def test_two_pods_on_one_nodes_network_never_collide(one: Any, other: Any) -> None:
    # The scheduler keeps two pods with a host port in common apart; then nothing else can collide.
    declared = [
        set(
            host_pod(spec(connector, shape, symmetric=symmetric and connector != "Nixl"), component)
        )
        for connector, shape, symmetric, component in (one, other)
    ]
    assert declared[0] & declared[1]


def test_no_ports_of_a_connector_where_nothing_is_moved() -> None:
    colocated = merged(spec("Mooncake", {}, symmetric=True), {"mode": "Colocated"})
    assert [port.name for port in port_plan(tier(colocated, DECODER))] == ["http"]


def test_a_decoder_that_sends_has_a_bootstrap_server_too() -> None:
    of = spec("Mooncake", {}, symmetric=True)
    plan = {port.number for port in port_plan(tier(of, DECODER))}
    assert {number for _, number in part(of, DECODER).ports} == plan == {8000, 8998}


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
