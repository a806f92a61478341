import asyncio
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from pd_operator.api.deployment import PDDeployment, parse
from pd_operator.autoscale.decision import Reason, TierDecision
from pd_operator.autoscale.exposition import Histogram
from pd_operator.autoscale.sample import ProxySample
from pd_operator.kinds import STATEFUL_SET
from pd_operator.observe import Owner, Ref, Snapshot, StatefulSetView
from pd_operator.pods import PodView
from pd_operator.scaling import FORGET_SECONDS, ProxyScaler, fleet
from pd_operator.scrape import ScrapeError
from pd_operator.traffic import Outlook
from pd_shared import labels

INTERVAL = 15.0


def deployment(uid: str = "cr", **autoscaling: Any) -> PDDeployment:
    scaling = {
        "mode": "Auto",
        "slo": {"ttft": "2s", "tpot": "50ms"},
        "prefill": {"max": 8},
        "decode": {"max": 8},
        **autoscaling,
    }
    return parse(
        {
            "metadata": {"name": "tiny", "namespace": "ns", "uid": uid, "generation": 1},
            "spec": {
                "model": {"id": "m"},
                "engine": {"image": "e:1", "version": "0.13.0"},
                "autoscaling": scaling,
            },
        }
    )


def pod(component: str, uid: str, ready: bool = True, terminating: bool = False) -> PodView:
    return PodView(uid, uid, component, "r", f"10.0.0.{uid[1:]}", ready, terminating, 0)


def stateful_set(component: str, replicas: int, deleting: bool = False) -> StatefulSetView:
    return StatefulSetView(
        f"tiny-{component}", component, "r", "p", replicas, replicas, replicas, True, deleting, "",
        Ref(STATEFUL_SET, f"tiny-{component}"),
    )  # fmt: skip


def snapshot(proxies: Iterable[str] = ("p1",), prefillers: int = 1, decoders: int = 1) -> Snapshot:
    return Snapshot(
        Owner("ns", "tiny", "cr"),
        {},
        stateful_sets=(
            stateful_set(labels.PREFILLER, prefillers),
            stateful_set(labels.DECODER, decoders),
        ),
        pods=(
            *(pod(labels.PROXY, uid) for uid in proxies),
            *(pod(labels.PREFILLER, f"e1{i}") for i in range(prefillers)),
            *(pod(labels.DECODER, f"e2{i}") for i in range(decoders)),
        ),
    )


class World:
    """Proxies that answer by their pod IP, a clock, and what was woken."""

    def __init__(self) -> None:
        self.now = 100.0
        self.ttft = 0.5
        self.down: set[str] = set()
        self.asked: list[str] = []
        self.woken: list[tuple[str, str]] = []
        self.count = 0.0
        self.slow = 0.0
        self.at_once = 0
        self.most_at_once = 0
        self.busy = True
        self.held: asyncio.Event | None = None
        self.begun = asyncio.Event()
        self.scaler = ProxyScaler(INTERVAL, self.scrape, self.wake, lambda: self.now)

    def wake(self, namespace: str, name: str) -> None:
        self.woken.append((namespace, name))

    async def scrape(self, address: str) -> ProxySample:
        self.asked.append(address)
        self.begun.set()
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        await (asyncio.sleep(0) if self.held is None else self.held.wait())
        self.at_once -= 1
        if address in self.down:
            raise ScrapeError(f"{address} is down")
        slow, fast = self.slow, self.count - self.slow
        times = Histogram((1.0, 10.0), (fast, fast + slow, fast + slow), fast + 9 * slow)
        busy = 1.0 if self.busy else 0.0
        return ProxySample(
            offered=self.count,
            prompt_tokens=100 * self.count,
            completion_tokens=self.count,
            in_flight_prefill=busy,
            in_flight_decode=busy,
            ttft=times,
            prefill=times,
            tpot=Histogram((0.01, 0.1), (self.count, self.count, self.count), self.count / 100),
            kv_expected={"d": 100 * self.count},
            kv_moved={"d": 100 * self.count},
            kv_recomputed={},
        )

    def step(self, fast: float = 0, slow: float = 0, seconds: float = INTERVAL) -> None:
        self.now += seconds
        self.count += fast + slow
        self.slow += slow

    async def look(self, cr: PDDeployment | None = None, **seen: Any) -> Outlook:
        return await self.scaler.look(cr or deployment(), snapshot(**seen))


def known(decision: TierDecision | None) -> TierDecision:
    assert decision is not None
    return decision


async def test_a_missed_ttft_grows_the_prefillers_and_wakes_the_reconcile() -> None:
    world = World()
    await world.look()
    world.step(slow=10)
    await world.scaler.round()
    assert world.woken == [("ns", "tiny")]
    outlook = await world.look()
    grown = known(outlook.prefill)
    assert (grown.current, grown.desired, grown.reason) == (1, 2, Reason.TTFT_ABOVE_TARGET)
    assert known(outlook.decode).desired == 1
    assert outlook.traffic.requests == 10
    assert (outlook.traffic.kv_expected, outlook.traffic.kv_moved) == (1000, 1000)
    assert outlook.traffic.ttft_p95 == pytest.approx(9.55)
    assert outlook.traffic.fresh


async def test_steady_traffic_wakes_at_most_once_a_minute_and_no_traffic_never() -> None:
    world = World()
    world.busy = False
    await world.look()
    for _ in range(30):
        world.step()
        await world.scaler.round()
    # Once for the reason that follows on "no metrics yet", and that is all.
    assert len(world.woken) <= 1
    world.woken.clear()
    for _ in range(20):
        world.step(fast=5)
        await world.scaler.round()
    assert 1 <= len(world.woken) <= 9


async def test_the_last_decision_stands_when_the_proxies_are_silent() -> None:
    world = World()
    await world.look()
    world.step(slow=10)
    assert known((await world.look()).prefill).desired == 2
    world.down = {"10.0.0.1"}
    for _ in range(40):
        world.step()
        await world.scaler.round()
    outlook = await world.look(prefillers=2)
    assert (known(outlook.prefill).desired, known(outlook.prefill).reason) == (
        2,
        Reason.STALE_METRICS,
    )
    assert not outlook.traffic.fresh


async def test_a_replicas_edit_by_others_is_not_adopted_but_a_restart_keeps_what_runs() -> None:
    world = World()
    assert known((await world.look(prefillers=3)).prefill).desired == 3
    assert known((await world.look(prefillers=1)).prefill).desired == 3
    assert known((await World().look(prefillers=5)).prefill).desired == 5


async def test_advice_is_about_the_spec_and_off_decides_nothing() -> None:
    world = World()
    advise = deployment(mode="Advise")
    await world.look(advise)
    for _ in range(3):
        world.step(slow=10)
        outlook = await world.look(advise)
        assert (known(outlook.prefill).current, known(outlook.prefill).desired) == (1, 2)
    outlook = await world.look(deployment(mode="Off"))
    assert outlook.prefill is outlook.decode is None
    assert outlook.traffic.requests == 30
    # What was only advised is not taken for done.
    assert known((await world.look()).prefill).current == 1


async def test_a_proxy_is_asked_once_an_interval_and_a_new_one_at_once() -> None:
    world = World()
    await world.look(proxies=("p1",))
    await world.look(proxies=("p1",))
    assert world.asked == ["10.0.0.1"]
    await world.look(proxies=("p1", "p2"))
    assert world.asked == ["10.0.0.1", "10.0.0.2"]
    world.down = {"10.0.0.3"}
    await world.look(proxies=("p3",))
    await world.look(proxies=("p3",))
    assert world.asked[2:] == ["10.0.0.3"]


async def test_one_proxy_is_never_asked_twice_at_once() -> None:
    world = World()
    await world.look()
    world.step()
    await asyncio.gather(world.look(), world.scaler.round(), world.look())
    assert world.most_at_once == 1


async def test_a_namesake_starts_from_nothing_and_what_is_gone_is_forgotten() -> None:
    world = World()
    await world.look()
    world.step(slow=10)
    assert known((await world.look()).prefill).desired == 2
    other = await world.look(deployment("other"))
    assert (known(other.prefill).desired, other.traffic.requests) == (1, 0)
    world.scaler.forget("ns", "tiny")
    world.scaler.forget("ns", "tiny")
    world.asked.clear()
    world.step()
    await world.scaler.round()
    assert world.asked == []


async def test_what_is_not_reconciled_any_more_is_forgotten() -> None:
    world = World()
    await world.look()
    world.asked.clear()
    world.step(seconds=FORGET_SECONDS + 1)
    await world.scaler.round()
    assert world.asked == []


async def test_a_failure_of_one_stops_neither_the_loop_nor_the_look(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    world = World()
    before = await world.look()

    def broken(*_: object) -> None:
        raise ZeroDivisionError

    monkeypatch.setattr("pd_operator.scaling.policy_of", broken)
    world.step(slow=10)
    await world.scaler.round()
    assert await world.look() == before
    assert "autoscaling of tiny failed" in caplog.text


async def test_the_loop_asks_again_and_again() -> None:
    world = World()
    often = asyncio.Event()

    async def scrape(address: str) -> ProxySample:
        if len(world.asked) == 5:
            often.set()
        return await world.scrape(address)

    scaler = ProxyScaler(0.001, scrape, world.wake)
    await scaler.look(deployment(), snapshot())
    loop = asyncio.create_task(scaler.run())
    await often.wait()
    loop.cancel()
    with pytest.raises(asyncio.CancelledError):
        await loop


def test_only_ready_proxies_must_answer_and_only_ready_pods_serve() -> None:
    seen = Snapshot(
        Owner("ns", "tiny", "cr"),
        {},
        stateful_sets=(
            stateful_set(labels.PREFILLER, 2),
            stateful_set(labels.PREFILLER, 3),
            stateful_set(labels.PREFILLER, 9, deleting=True),
        ),
        pods=(
            pod(labels.PROXY, "p1"),
            pod(labels.PROXY, "p2", ready=False),
            pod(labels.PROXY, "p3", terminating=True),
            pod(labels.PREFILLER, "e1"),
            pod(labels.PREFILLER, "e2", ready=False),
            pod(labels.PREFILLER, "e3", terminating=True),
        ),
    )
    found = fleet(deployment(), seen)
    assert found.proxies == {"p1"}
    assert (found.prefill.wanted, found.prefill.applied, found.prefill.ready) == (1, 3, 1)
    assert (found.decode.wanted, found.decode.applied, found.decode.ready) == (1, None, 0)


async def test_a_look_does_not_wait_for_a_proxy_that_is_not_ready_but_a_round_reads_it() -> None:
    world = World()
    seen = replace(
        snapshot(),
        pods=(pod(labels.PROXY, "p1"), pod(labels.PROXY, "p2", ready=False)),
    )
    await world.scaler.look(deployment(), seen)
    assert world.asked == ["10.0.0.1"]
    await world.scaler.round()
    assert world.asked == ["10.0.0.1", "10.0.0.2"]


async def test_only_a_ready_proxy_that_fails_is_worth_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World()
    world.down = {"10.0.0.1", "10.0.0.2"}
    seen = replace(
        snapshot(),
        pods=(pod(labels.PROXY, "p1"), pod(labels.PROXY, "p2", ready=False)),
    )
    await world.scaler.look(deployment(), seen)
    for _ in range(3):
        world.step()
        await world.scaler.round()
    assert [record.getMessage() for record in caplog.records] == ["tiny: 10.0.0.1 is down"]


async def test_a_look_does_not_wait_for_a_round() -> None:
    world = World()
    before = await world.look()
    world.step()
    world.held = asyncio.Event()
    world.begun.clear()
    running = asyncio.create_task(world.scaler.round())
    await world.begun.wait()
    assert await world.look() == before
    world.held.set()
    await running
    assert len(world.asked) == 2
