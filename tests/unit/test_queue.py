"""One run per key at a time, coalescing, delays, back-off, stop."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator

import pytest

from pd_operator.queue import Again, Key, Queue

A: Key = ("ns", "a")
B: Key = ("ns", "b")


class Work:
    """Counts runs, and lets the test hold and judge them."""

    def __init__(self) -> None:
        self.runs: Counter[Key] = Counter()
        self.together: Counter[Key] = Counter()
        self.most = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self.begun = asyncio.Event()
        self.answers: list[Again | Exception] = []

    async def __call__(self, key: Key) -> Again:
        self.runs[key] += 1
        self.together[key] += 1
        self.most = max(self.most, self.together.total())
        assert self.together[key] == 1, "two runs of one key"
        self.begun.set()
        try:
            await self.gate.wait()
        finally:
            self.together[key] -= 1
        answer = self.answers.pop(0) if self.answers else Again()
        if isinstance(answer, Exception):
            raise answer
        return answer


@pytest.fixture
async def work() -> Work:
    return Work()


@pytest.fixture
async def queue(work: Work) -> AsyncIterator[Queue]:
    made = Queue(work, workers=2, base=0.001, limit=0.004)
    yield made
    await made.cancel()


async def until_runs(work: Work, key: Key, count: int) -> None:
    while work.runs[key] < count:
        work.begun.clear()
        await work.begun.wait()


async def test_keys_added_before_the_start_are_one_run(work: Work, queue: Queue) -> None:
    for _ in range(5):
        queue.add(A)
    queue.start()
    await queue.idle()
    assert work.runs[A] == 1


async def test_keys_added_during_a_run_are_one_more(work: Work, queue: Queue) -> None:
    queue.start()
    work.gate.clear()
    queue.add(A)
    await work.begun.wait()
    for _ in range(5):
        queue.add(A)
    assert queue.depth == 1
    work.gate.set()
    await queue.idle()
    assert work.runs[A] == 2


async def test_keys_run_beside_each_other_and_no_more_than_workers(
    work: Work, queue: Queue
) -> None:
    work.gate.clear()
    queue.start()
    for name in "abcd":
        queue.add(("ns", name))
    await until_runs(work, B, 1)
    assert (work.most, queue.depth) == (2, 4)
    work.gate.set()
    await queue.idle()
    assert work.runs.total() == 4
    assert work.most == 2


async def test_a_delayed_key_runs_later(work: Work, queue: Queue) -> None:
    queue.start()
    queue.add(A, 0.01)
    assert queue.depth == 0
    await until_runs(work, A, 1)


async def test_the_earlier_time_counts(work: Work, queue: Queue) -> None:
    queue.start()
    queue.add(A, 3600)
    queue.add(A, 0.001)
    await until_runs(work, A, 1)
    queue.add(B, 0.001)
    queue.add(B, 3600)
    await until_runs(work, B, 1)
    await queue.idle()
    assert (work.runs[A], work.runs[B]) == (1, 1)


async def test_a_run_now_takes_the_place_of_a_later_one(work: Work, queue: Queue) -> None:
    queue.start()
    queue.add(A, 0.005)
    queue.add(A)
    await queue.idle()
    assert work.runs[A] == 1
    queue.add(B, 0.01)
    await until_runs(work, B, 1)
    assert work.runs[A] == 1


async def test_failures_are_tried_again(work: Work, queue: Queue) -> None:
    work.answers = [Again(failed=True), Again(failed=True), Again()]
    queue.start()
    queue.add(A)
    await until_runs(work, A, 3)


async def test_a_run_that_breaks_is_a_failure_and_the_worker_lives(
    work: Work, queue: Queue, caplog: pytest.LogCaptureFixture
) -> None:
    work.answers = [RuntimeError("broken"), RuntimeError("broken"), RuntimeError("broken")]
    queue.start()
    queue.add(A)
    await until_runs(work, A, 4)
    assert "reconcile of ns/a failed unexpectedly" in caplog.text


async def test_another_run_may_be_asked_for(work: Work, queue: Queue) -> None:
    work.answers = [Again(after=0.001), Again()]
    queue.start()
    queue.add(A)
    await until_runs(work, A, 2)


def test_backoff_doubles_to_a_limit_with_jitter() -> None:
    async def never(_: Key) -> Again:
        return Again()

    made = Queue(never, base=1.0, limit=300.0)
    for failures, most in ((1, 1.0), (2, 2.0), (5, 16.0), (9, 256.0), (10, 300.0), (5000, 300.0)):
        delays = {made._backoff(failures) for _ in range(50)}
        assert all(0.75 * most <= delay <= most for delay in delays)
        assert len(delays) > 1


async def test_a_forgotten_key_does_not_run(work: Work, queue: Queue) -> None:
    queue.start()
    queue.add(A, 0.001)
    queue.forget(A)
    queue.add(B, 0.005)
    await until_runs(work, B, 1)
    assert work.runs[A] == 0


async def test_stop_lets_a_run_end_and_begins_no_other(work: Work, queue: Queue) -> None:
    work.gate.clear()
    queue.start()
    for name in "abc":
        queue.add(("ns", name))
    queue.add(("ns", "later"), 0.001)
    await until_runs(work, B, 1)
    stopping = asyncio.create_task(queue.stop(grace=60))
    await asyncio.sleep(0)
    queue.add(("ns", "too late"))
    work.gate.set()
    await stopping
    assert set(work.runs) == {A, B}
    assert queue.depth == 0


async def test_stop_cuts_off_what_does_not_end(work: Work, queue: Queue) -> None:
    work.gate.clear()
    queue.start()
    queue.add(A)
    await work.begun.wait()
    await queue.stop(grace=0.001)
    assert work.together[A] == 0
    assert queue.depth == 0
