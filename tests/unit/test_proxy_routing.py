"""The choice of pods: pure functions over what is known of them."""

import subprocess
import sys
from collections import Counter
from dataclasses import dataclass
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pd_proxy.routing import cost
from pd_proxy.routing.homes import HOMES, Homes, identity, ranked
from pd_proxy.routing.prefixes import Prefixes
from pd_proxy.routing.prompt import BLOCK_BYTES, ENDS, hashes, prompt_of

KEYS = st.integers(min_value=0, max_value=2**32 - 1)
TICKETS = st.integers(min_value=0, max_value=2**40 - 1)


@dataclass(frozen=True)
class Pod:
    name: str
    in_flight: int = 0
    queued: int = 0
    others: int = 0
    kv_usage: float = 0.0


def number(pod: Pod) -> int:
    return identity(pod.name)


def homes_of(key: int, pods: list[Pod]) -> tuple[Pod, ...]:
    return ranked(key, pods, [number(pod) for pod in pods])


def chat(*turns: str) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": turn} for turn in turns]}


PODS = st.lists(
    st.builds(
        Pod,
        name=st.uuids().map(str),
        in_flight=st.integers(0, 50),
        queued=st.integers(0, 100_000),
        others=st.integers(0, 20),
        kv_usage=st.floats(0, 1),
    ),
    min_size=1,
    max_size=30,
    unique_by=lambda pod: pod.name,
)


# Prompts.


@given(st.binary(max_size=20_000), st.binary(max_size=20_000))
def test_prompts_share_the_blocks_of_their_common_text(text: bytes, more: bytes) -> None:
    one, both = hashes(text, 7), hashes(text + more, 7)
    assert both[: len(one)] == one
    assert len(one) == sum(end <= len(text) for end in ENDS)


def test_a_block_stands_for_all_before_it() -> None:
    same = "x" * BLOCK_BYTES
    one, other = hashes(b"a" + same.encode(), 0), hashes(b"b" + same.encode(), 0)
    assert not set(one) & set(other)


def test_long_prompts_have_few_blocks() -> None:
    assert len(hashes(bytes(32 * 1024 * 1024), 0)) < 100


def test_next_turn_begins_as_the_one_before() -> None:
    first = prompt_of(chat("a" * 3000), True, None)
    second = prompt_of(chat("a" * 3000, "b" * 3000), True, None)
    assert len(first.blocks) >= 5
    assert second.blocks[: len(first.blocks)] == first.blocks
    assert second.key == first.key
    assert second.size > first.size


def test_models_salts_and_tools_do_not_share() -> None:
    body = chat("a" * 3000)
    plain = prompt_of(body, True, None)
    for change in ({"model": "n"}, {"cache_salt": "s"}, {"tools": [{"type": "function"}]}):
        other = prompt_of({**body, **change}, True, None)
        assert not set(other.blocks) & set(plain.blocks), change


def test_strange_prompts_have_no_key() -> None:
    for fields in ({}, {"prompt": None}, {"prompt": "short"}, {"prompt": "\ud800" * 10}):
        assert prompt_of(fields, False, None).key is None
    assert prompt_of({"messages": 1}, True, None).key is None
    tokens = prompt_of({"prompt": list(range(5000))}, False, None)
    assert len(tokens.blocks) > 4


def test_session_is_the_key() -> None:
    one = prompt_of({"prompt": "short"}, False, b"s")
    other = prompt_of({"prompt": "another"}, False, b"s")
    assert one.key == other.key is not None
    assert one.key != prompt_of({"prompt": "short"}, False, b"t").key
    assert prompt_of({"prompt": "x" * 9999}, False, b"s", hashed=False).blocks == ()


# Homes.


@given(KEYS, PODS)
def test_a_removed_pod_moves_only_its_own_keys(key: int, pods: list[Pod]) -> None:
    home = homes_of(key, pods)[0]
    for gone in pods:
        rest = [pod for pod in pods if pod is not gone]
        if rest and gone is not home:
            assert homes_of(key, rest)[0] is home


@given(KEYS, PODS, st.randoms())
def test_homes_do_not_depend_on_the_order(key: int, pods: list[Pod], random: Any) -> None:
    other = list(pods)
    random.shuffle(other)
    homes = Homes[Pod](number)
    assert homes.of(key, pods) == homes.of(key, pods) == Homes[Pod](number).of(key, other)
    assert len(homes.of(key, pods)) == min(HOMES, len(pods))


def test_homes_are_spread() -> None:
    pods = [Pod(f"uid-{i}") for i in range(10)]
    homes = Counter(homes_of(hashes(b"%0512d" % i, 0)[0], pods)[0] for i in range(5000))
    assert len(homes) == 10
    assert max(homes.values()) < 650
    assert min(homes.values()) > 350


def test_every_process_finds_the_same_home() -> None:
    program = (
        "from pd_proxy.routing.homes import identity, ranked\n"
        "print([ranked(k, 'abcd', list(map(identity, 'abcd')))[0] for k in range(50)])"
    )
    told = {
        subprocess.run(
            [sys.executable, "-c", program], env={"PYTHONHASHSEED": seed, "PYTHONPATH": "operator"},
            capture_output=True, text=True, check=True,
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert told == {f"{[ranked(k, 'abcd', list(map(identity, 'abcd')))[0] for k in range(50)]}\n"}


# What is remembered.


@given(st.lists(st.tuples(st.integers(0, 4), st.lists(st.integers(0, 60), max_size=12))))
def test_memory_is_bounded(prompts: list[tuple[int, list[int]]]) -> None:
    table = Prefixes[int](most=10, together=20)
    for pod, blocks in prompts:
        table.learn(pod, blocks)
        assert len(table) <= 20 + 10  # another pod shrinks when it is used next
        for backend, had in table.matches(blocks):
            assert backend in range(5)
            assert had in ENDS
    for pod in range(5):
        table.forget(pod)
    assert len(table) == 0
    assert table.matches(range(61)) == []
    assert table._where == {}


def test_longest_match_comes_first() -> None:
    table = Prefixes[str]()
    table.learn("a", [1, 2])
    table.learn("b", [1, 2, 3])
    assert table.matches([1, 2, 3, 4]) == [("b", ENDS[2]), ("a", ENDS[1])]
    table.forget("b")
    assert table.matches([1, 2, 3, 4]) == [("a", ENDS[1])]


def test_the_beginning_is_forgotten_last() -> None:
    table = Prefixes[str](most=3)
    table.learn("a", [1, 2, 3, 4, 5])
    assert table.matches([1, 2, 3, 4, 5]) == [("a", ENDS[2])]
    table.learn("a", [9])
    assert table.matches([1, 2, 3]) == [("a", ENDS[1])]


# The choice.


@given(PODS, TICKETS, KEYS, st.integers(0, 50_000))
def test_no_prefiller_gets_more_than_the_bound(
    pods: list[Pod], ticket: int, key: int, size: int
) -> None:
    total = sum(pod.in_flight for pod in pods)
    most = cost.bound(total, len(pods))
    assert min(pod.in_flight for pod in pods) < most  # so there always is one
    chosen = cost.prefiller(
        size, most,
        matches=[(pods[0], size)], homes=homes_of(key, pods), shared=size // 2,
        others=cost.two(pods, ticket),
    )  # fmt: skip
    if chosen is not None:
        assert chosen.in_flight < most


@given(PODS, TICKETS)
def test_two_are_different_ones(pods: list[Pod], ticket: int) -> None:
    found = cost.two(pods, ticket)
    assert len({pod.name for pod in found}) == min(2, len(pods))


def test_every_pair_is_drawn() -> None:
    assert {tuple(cost.two("abcd", t)) for t in range(12)} == {
        (a, b) for a in "abcd" for b in "abcd" if a != b
    }


def choose(size: int, pods: list[Pod], **more: Any) -> str:
    given_: dict[str, Any] = {"matches": [], "homes": [], "shared": 0, "others": pods, **more}
    chosen: Pod | None = cost.prefiller(size, 100, **given_)
    assert chosen is not None
    return chosen.name


def test_known_prompt_goes_where_it_is_cached_unless_that_is_busier_than_it_is_worth() -> None:
    idle, cached = Pod("idle"), Pod("cached", queued=3000)
    assert choose(4000, [idle], matches=[(cached, 3500)]) == "cached"
    assert choose(4000, [idle], matches=[(cached, 2500)]) == "idle"


def test_home_is_credited_with_what_its_key_covers() -> None:
    idle, home = Pod("idle"), Pod("home", queued=1000)
    assert choose(4000, [idle], homes=[home], shared=2000) == "home"
    assert choose(4000, [idle], homes=[home], shared=500) == "idle"


def test_full_home_overflows_to_the_next_one() -> None:
    full, second, idle = Pod("full", in_flight=100), Pod("second", queued=10), Pod("idle")
    assert choose(4000, [idle], homes=[full, second], shared=2000) == "second"


def test_decoder_with_the_least_to_do() -> None:
    def best(*pods: Pod) -> str:
        chosen = cost.decoder(pods)
        assert chosen is not None
        return chosen.name

    assert best(Pod("a", in_flight=2), Pod("b", in_flight=1)) == "b"
    assert best(Pod("a", in_flight=1, others=5), Pod("b", in_flight=3)) == "b"
    assert best(Pod("a", in_flight=1, kv_usage=0.99), Pod("b", in_flight=9)) == "b"
    assert best(Pod("a"), Pod("b")) == "a"
    assert cost.decoder([]) is None
