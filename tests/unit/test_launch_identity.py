"""Who a pod is in its group, and what its engine is told."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pd_launch.identity import identity, substituted


@given(ordinal=st.integers(0, 10**6), size=st.integers(2, 64))
def test_groups_are_consecutive_pods_with_one_leader(ordinal: int, size: int) -> None:
    me = identity(f"tiny-decoder-abcdefgh-{ordinal}", size, "r")
    assert me.stateful_set == "tiny-decoder-abcdefgh"
    assert me.leader == ordinal - ordinal % size
    assert me.rank == ordinal % size
    assert (ordinal in me.workers) is (me.rank != 0)
    assert len(me.workers) == size - 1
    leader = identity(f"tiny-decoder-abcdefgh-{me.leader}", size, "r")
    assert (leader.rank, leader.group, leader.workers) == (0, me.group, me.workers)
    later = identity(f"tiny-decoder-abcdefgh-{ordinal + size}", size, "r")
    assert later.group != me.group


@pytest.mark.parametrize("name", ["", "node", "a-", "-1", "a-01", "a-1x", "A-1", "a-1\n", "a--1 "])
def test_a_name_without_an_ordinal(name: str) -> None:
    with pytest.raises(ValueError, match="not the name of a StatefulSet's pod"):
        identity(name, 2, "")


def test_address_of_the_leader() -> None:
    me = identity("tiny-decoder-abcdefgh-5", 2, "")
    address = me.leader_address("tiny-decoder", "ns", "cluster.local")
    assert address == "tiny-decoder-abcdefgh-4.tiny-decoder.ns.svc.cluster.local"


def test_substitution_leaves_other_braces() -> None:
    me = identity("s-5", 3, "")
    command = [
        "--node-rank={node_rank}",
        "--start={start_rank}",
        "--master-addr={leader_address}",
        '--config={"a": {"node_rank": "{node_rank}"}, "b": "{other}"}',
    ]
    assert substituted(command, me, "lead", 4) == [
        "--node-rank=2",
        "--start=8",
        "--master-addr=lead",
        '--config={"a": {"node_rank": "2"}, "b": "{other}"}',
    ]
