import pytest

from pd_operator.autoscale.journal import KEEP, Journal, JournalError, read
from pd_operator.simulate.latency import Latency
from pd_operator.simulate.others import Bounds
from pd_operator.simulate.policies import Ours
from pd_operator.simulate.setting import Setting
from pd_operator.simulate.traces import sine
from pd_operator.simulate.world import World

LATENCY = Latency(((100, 0.1), (1000, 1.0)), base=0.01, per_request=0.001, per_token=0.0)


def played() -> Journal:
    trace = sine(low=1, high=4, period=600, seconds=1800, prompt=500, output=50, seed=1)
    policy = Ours(Bounds(2.0, 0.05, max=8))
    World(trace, Setting(LATENCY, 60.0, 2, 1), policy).run()
    return policy.track.journal


def test_a_journal_read_again_decides_the_same() -> None:
    journal = played()
    again = read(journal.lines())
    assert again == journal
    assert len(again.entries) == KEEP
    assert len({entry.prefill for entry in again.entries}) > 1
    for entry in again.entries:
        decision = entry.replayed()
        assert (decision.prefill.desired, decision.decode.desired) == (entry.prefill, entry.decode)


def test_a_line_is_small_enough_to_keep_many() -> None:
    assert max(len(line) for line in played().lines()) < 20_000


def test_what_is_no_journal_is_refused() -> None:
    with pytest.raises(JournalError, match="line 2"):
        read(["", "{}"])
