"""Who leads, whatever the clocks say."""

import asyncio
import copy
from typing import Any

import pytest

from pd_operator.errors import ApiError
from pd_operator.kinds import LEASE
from pd_operator.lease import NAME, Lease, Times
from tests.faults.server import Server

NAMESPACE = "pd-system"
TIMES = Times(renew=0.001, deadline=10.0, duration=15.0)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Flaky(Server):
    """A server that may be out of reach, and counts who looks."""

    def __init__(self) -> None:
        super().__init__()
        self.down = False
        self._looks = 0
        self._looked = asyncio.Condition()

    async def get(self, *arguments: Any) -> dict[str, Any] | None:
        async with self._looked:
            self._looks += 1
            self._looked.notify_all()
        if self.down:
            raise ApiError(0, "Unreachable", "no answer")
        return await super().get(*arguments)

    async def looked(self, times: int = 4) -> None:
        """Wait until somebody looked at the Lease so many times more."""
        wanted = self._looks + times
        async with self._looked:
            await self._looked.wait_for(lambda: self._looks >= wanted)


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def server() -> Flaky:
    return Flaky()


def lease(server: Server, clock: Clock, identity: str = "a") -> Lease:
    return Lease(server, NAMESPACE, identity, TIMES, clock)


def holder(server: Server) -> str:
    found: str = server.objects[LEASE.name, NAMESPACE, NAME]["spec"]["holderIdentity"]
    return found


async def test_the_first_one_leads(server: Flaky, clock: Clock) -> None:
    first = lease(server, clock)
    assert not first.held
    await first.acquire()
    assert first.held
    assert holder(server) == "a"
    spec = server.objects[LEASE.name, NAMESPACE, NAME]["spec"]
    assert (spec["leaseDurationSeconds"], spec["leaseTransitions"]) == (15, 1)


async def standing_by(server: Flaky, second: Lease) -> "asyncio.Task[None]":
    task = asyncio.create_task(second.acquire())
    await server.looked()
    assert not task.done()
    return task


async def test_a_second_one_waits_while_the_first_renews(server: Flaky, clock: Clock) -> None:
    first, second = lease(server, clock), lease(server, clock, "b")
    await first.acquire()
    task = await standing_by(server, second)
    for _ in range(5):
        clock.now += 8
        await first._attempt()
        await server.looked()
        assert not task.done()
    assert not second.held
    task.cancel()


async def test_a_lease_that_stands_still_for_its_duration_is_taken(
    server: Flaky, clock: Clock
) -> None:
    first, second = lease(server, clock), lease(server, clock, "b")
    await first.acquire()
    task = await standing_by(server, second)
    clock.now += 14.9
    await server.looked()
    assert not task.done()
    assert not first.held  # gave up before
    clock.now += 0.2
    await task
    assert holder(server) == "b"
    assert server.objects[LEASE.name, NAMESPACE, NAME]["spec"]["leaseTransitions"] == 2


async def test_the_times_in_the_lease_are_never_compared(server: Flaky, clock: Clock) -> None:
    first, second = lease(server, clock), lease(server, clock, "b")
    await first.acquire()
    found = server.objects[LEASE.name, NAMESPACE, NAME]
    for time in ("1970-01-01T00:00:00.000000Z", "2999-01-01T00:00:00.000000Z"):
        found["spec"]["renewTime"] = time
        task = await standing_by(server, second)
        task.cancel()


async def test_a_released_lease_is_taken_at_once(server: Flaky, clock: Clock) -> None:
    first, second = lease(server, clock), lease(server, clock, "b")
    await first.acquire()
    task = await standing_by(server, second)
    await first.release()
    assert not first.held
    await task
    assert second.held
    await first.release()  # has nothing to give back
    assert holder(server) == "b"


async def test_keep_ends_when_another_one_took_it(server: Flaky, clock: Clock) -> None:
    first = lease(server, clock)
    await first.acquire()
    found = copy.deepcopy(server.objects[LEASE.name, NAMESPACE, NAME])
    found["spec"]["holderIdentity"] = "b"
    server.put(found)
    await first.keep()
    assert not first.held


async def test_keep_outlives_a_short_outage_and_ends_in_a_long_one(
    server: Flaky, clock: Clock
) -> None:
    first = lease(server, clock)
    await first.acquire()
    server.down = True
    task = asyncio.create_task(first.keep())
    clock.now += 9
    await server.looked()
    assert first.held
    server.down = False
    await server.looked()
    assert first._renewed == clock.now
    server.down = True
    clock.now += 10
    assert not first.held  # at once, before any task notices
    await task


async def test_a_hanging_renewal_does_not_prolong_leadership(clock: Clock) -> None:
    class Hanging(Server):
        hang = False

        async def get(self, *arguments: Any) -> dict[str, Any] | None:
            if self.hang:
                await asyncio.Event().wait()
            return await super().get(*arguments)

    server = Hanging()
    times = Times(renew=0.001, deadline=0.05, duration=15.0)
    first = Lease(server, NAMESPACE, "a", times)
    await first.acquire()
    server.hang = True
    await first.keep()
    assert not first.held


async def test_two_that_race_for_a_free_lease_are_one_leader(server: Flaky, clock: Clock) -> None:
    both = [lease(server, clock, name) for name in "ab"]
    tasks = [asyncio.create_task(one.acquire()) for one in both]
    done, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    await server.looked()
    assert sum(one.held for one in both) == 1
    assert len(done) == 1
    for task in pending:
        task.cancel()


async def test_a_restarted_process_of_the_same_name_goes_on(server: Flaky, clock: Clock) -> None:
    await lease(server, clock).acquire()
    again = lease(server, clock)
    await again.acquire()
    assert server.objects[LEASE.name, NAMESPACE, NAME]["spec"]["leaseTransitions"] == 1


async def test_a_release_that_fails_is_only_logged(
    server: Flaky, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    first = lease(server, clock)
    await first.acquire()
    server.down = True
    await first.release()
    assert not first.held
    assert "could not give leadership back" in caplog.text
