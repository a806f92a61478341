"""Who of those that wait is next."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from pd_proxy.fair_queue import HIGH, LOW, MOST_COST, NORMAL, QUANTUM, Entry, FairQueue
from pd_proxy.pace import LONGEST, Pace

ENTRIES = st.lists(
    st.tuples(
        st.sampled_from("abcd"), st.sampled_from((HIGH, NORMAL, LOW)), st.integers(1, 200_000)
    ),
    max_size=60,
)


def filled(entries: list[tuple[str, int, int]]) -> FairQueue[int]:
    queue: FairQueue[int] = FairQueue()
    for number, (flow, priority, cost) in enumerate(entries):
        queue.push(Entry(number, flow, priority, cost))
    return queue


def drained(queue: FairQueue[int]) -> list[Entry[int]]:
    served = []
    while entry := queue.pop():
        served.append(entry)
    return served


@given(ENTRIES)
def test_each_is_served_once_and_within_a_flow_in_order(
    entries: list[tuple[str, int, int]],
) -> None:
    queue = filled(entries)
    assert len(queue) == len(entries)
    served = drained(queue)
    assert sorted(e.item for e in served) == list(range(len(entries)))
    assert len(queue) == 0
    assert queue.pop() is None
    for flow in "abcd":
        own = [(e.priority, e.item) for e in served if e.flow == flow]
        assert own == sorted(own)


@given(st.lists(st.lists(st.integers(1, 100_000), min_size=1, max_size=40), min_size=2, max_size=5))
def test_no_flow_gets_more_than_its_share_while_others_wait(costs: list[list[int]]) -> None:
    queue = filled([(str(i), NORMAL, cost) for i, flow in enumerate(costs) for cost in flow])
    left = Counter({str(i): len(flow) for i, flow in enumerate(costs)})
    sent: Counter[object] = Counter()
    while entry := queue.pop():
        sent[entry.flow] += min(entry.cost, MOST_COST)
        left[str(entry.flow)] -= 1
        if not all(left.values()):
            break
        assert max(sent[f] for f in left) - min(sent[f] for f in left) <= QUANTUM + MOST_COST


def test_a_flood_does_not_delay_others() -> None:
    queue = filled([("flood", NORMAL, QUANTUM)] * 1000)
    queue.push(Entry(-1, "quiet", NORMAL, QUANTUM))
    assert -1 in [entry.item for entry in drained(queue)[:3]]


def test_who_sent_nothing_has_saved_nothing_up() -> None:
    queue = filled([("a", NORMAL, QUANTUM)] * 4)
    drained(queue)
    for number in range(4):
        queue.push(Entry(number, "b", NORMAL, QUANTUM))
        queue.push(Entry(number + 10, "a", NORMAL, QUANTUM))
    first = [entry.flow for entry in drained(queue)[:4]]
    assert Counter(first) == {"a": 2, "b": 2}


@given(ENTRIES, st.sets(st.integers(0, 59)))
def test_who_leaves_is_not_served(entries: list[tuple[str, int, int]], leavers: set[int]) -> None:
    queue: FairQueue[int] = FairQueue()
    made = [Entry(number, *rest) for number, rest in enumerate(entries)]
    for entry in made:
        queue.push(entry)
    gone = {number for number in leavers if number < len(made)}
    for number in gone:
        assert queue.remove(made[number])
        assert not queue.remove(made[number])
    assert {e.item for e in drained(queue)} == set(range(len(made))) - gone


def test_the_longest_flow_makes_room() -> None:
    queue = filled([("a", LOW, 1), ("a", HIGH, 1), ("a", NORMAL, 1), ("b", NORMAL, 1)])
    victim = queue.victim("b")
    assert victim is not None
    assert victim.item == 0
    assert queue.victim("a") is None
    queue.remove(victim)
    # Now a has one more than b: b would only take a's place.
    assert queue.victim("b") is None
    assert filled([]).victim("a") is None


def test_retry_after_follows_the_pace() -> None:
    pace = Pace()
    assert pace.wait(100, 0.0) == 1  # nothing is known
    for number in range(1000):
        pace.note(1, number / 10)  # ten a second
    now = 99.9
    assert 8 <= pace.wait(100, now) <= 12
    assert pace.wait(1, now) == 1
    assert pace.wait(100_000, now) == LONGEST
    assert pace.wait(100, now + 3600) == 1
