"""Which engines are left alone, for how long, and how they come back."""

import asyncio
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from pd_proxy import ejection
from pd_proxy.backends import READY, Backend, Backends, Pod
from pd_proxy.budget import MOST, RetryBudget, cost
from pd_proxy.ejection import GOOD, Health
from pd_proxy.protocols import protocols
from tests.engine_sim import Engine, answers
from tests.engine_sim.rig import Rig, rig, until
from tests.engine_sim.wire import Request, Response

LONGEST = max(ejection.MOST_SECONDS, ejection.TRIAL_SECONDS) + 1e-6
EVENTS = st.lists(
    st.tuples(
        st.sampled_from(("grave", "lesser", "succeeded", "chosen", "time")),
        st.floats(0.01, 30.0),
    ),
    max_size=60,
)


def step(health: Health, event: str, now: float) -> Health:
    if event == "succeeded":
        return ejection.succeeded(health)
    if event == "chosen":
        return ejection.chosen(health, now)
    if event == "time":
        return health
    return ejection.failed(health, now, grave=event == "grave")


@given(EVENTS)
def test_an_ejected_engine_is_tried_again_in_time(events: list[tuple[str, float]]) -> None:
    health, now = GOOD, 1.0
    for event, seconds in events:
        now += seconds
        health = step(health, event, now)
        assert health.until - now <= LONGEST
    # Whatever came before: after the longest pause one request may try it, and only one.
    later = now + LONGEST
    assert health.until <= later
    if not health.good:
        trial = ejection.chosen(health, later)
        assert trial.trial
        assert trial.until > later
        assert ejection.chosen(trial, later) == trial
        assert ejection.succeeded(trial).good
        assert not ejection.failed(trial, later, grave=False).good


@given(EVENTS)
def test_enough_successes_forget_everything(events: list[tuple[str, float]]) -> None:
    health, now = GOOD, 1.0
    for event, seconds in events:
        now += seconds
        health = step(health, event, now)
    for _ in range(len(events) + 1):
        health = ejection.succeeded(health)
    assert health == GOOD


def test_one_grave_failure_ejects_and_lesser_ones_only_in_a_row() -> None:
    assert not ejection.failed(GOOD, 1.0, grave=True).good
    health = GOOD
    for _ in range(ejection.LESSER_FAILURES - 1):
        health = ejection.failed(health, 1.0, grave=False)
        assert health.good
    assert ejection.succeeded(health) == GOOD
    assert not ejection.failed(health, 1.0, grave=False).good


def test_failures_of_what_was_sent_before_do_not_count() -> None:
    health = ejection.failed(GOOD, 1.0, grave=True)
    assert ejection.failed(health, 1.1, grave=True) == health


def test_each_failed_trial_doubles_the_pause() -> None:
    health, now, pauses = GOOD, 0.0, []
    for _ in range(8):
        health = ejection.failed(ejection.chosen(health, now), now, grave=True)
        pauses.append(health.until - now)
        now = health.until
    assert pauses == [0.5, 1.0, 2.0, 4.0, 8.0, 10.0, 10.0, 10.0]


def test_what_is_known_to_be_down_stays_away() -> None:
    health = ejection.failed(GOOD, 1.0, grave=True)
    assert ejection.held(health, 30.0).until == 30.0
    assert ejection.held(GOOD, 30.0) == GOOD


def pod(number: int) -> Pod:
    return Pod(
        uid=f"d{number}", name=f"d{number}", tier="decoder", pairing="", host="127.0.0.1", port=1,
        bootstrap_port=1, incarnation="1", state=READY,
    )  # fmt: skip


@given(
    count=st.integers(1, 12),
    events=st.lists(
        st.tuples(st.integers(0, 11), st.sampled_from(("grave", "lesser", "succeeded"))),
        max_size=80,
    ),
)
def test_never_are_all_ejected(count: int, events: list[tuple[int, str]]) -> None:
    async def play() -> None:
        backends = Backends(protocols())
        backends.update(pod(i) for i in range(count))
        all_of_them = backends.all()
        for number, event in events:
            backend: Backend = all_of_them[number % count]
            if event == "succeeded":
                backend.succeeded()
            else:
                backend.failed(1.0, grave=event == "grave")
            ejected = sum(b.ejected for b in all_of_them)
            assert ejected < count
            assert ejected <= count * ejection.MOST_PART
        backends.close()

    asyncio.run(play())


def freeze(engine: Engine) -> None:
    """As SIGSTOP: connections are taken, nothing is answered any more."""

    async def never(request: Request, response: Response) -> None:
        await asyncio.Event().wait()

    engine.http.handler = engine.bootstrap.handler = never


def backend_of(r: Rig, engine: Engine) -> Backend:
    return next(b for b in r.proxy.backends.all() if b.pod.uid == engine.name)


def right(reply: Any, prompt: str) -> bool:
    return bool(reply.status == 200 and reply.text() == "".join(answers.tokens(prompt, 4)))


async def test_a_frozen_decoder_gives_back_what_it_has_not_begun() -> None:
    async with rig(decoders=2, check_seconds=0.1) as r:
        freeze(r.decoders[0])
        prompts = [f"p{i}" for i in range(10)]
        replies = await asyncio.gather(*(r.complete(p, stream=True) for p in prompts))
        assert all(right(x, p) for x, p in zip(replies, prompts, strict=True))
        assert await r.metric("pd_proxy_retries_total", reason="decoder_unhealthy") >= 1
        assert await r.metric("pd_proxy_ejected_backends", tier="decode") == 1
        assert await r.metric("pd_proxy_ejections_total", tier="decode") == 1
        before = len(r.decoders[1].seen)
        for i in range(5):
            assert right(await r.complete(f"q{i}"), f"q{i}")
        assert len(r.decoders[1].seen) == before + 5


async def test_the_only_prefiller_frozen_leaves_the_decoder_alone() -> None:
    async with rig(check_seconds=0.1) as r:
        freeze(r.prefillers[0])
        assert right(await r.complete("p", stream=True), "p")
        assert await r.metric("pd_proxy_retries_total", reason="prefiller_unhealthy") >= 1
        reply = await r.complete("q")
        assert right(reply, "q")
        assert "x-pd-prefiller" not in reply.headers


async def test_an_engine_that_is_well_again_comes_back() -> None:
    async with rig(decoders=2, check_seconds=0.05) as r:
        backend = backend_of(r, r.decoders[0])
        handler = r.decoders[0].http.handler
        freeze(r.decoders[0])
        await until(lambda: backend.ejected)
        r.decoders[0].http.handler = handler
        await until(lambda: not backend.down)
        while backend.ejected:
            assert right(await r.complete("p"), "p")
            await asyncio.sleep(0.01)
        assert len(r.decoders[0].seen) == 1  # the trial
        assert await r.metric("pd_proxy_ejected_backends", tier="decode") == 0


async def test_dead_prefillers_that_are_still_ready_are_not_waited_for() -> None:
    async with rig(prefillers=2, seconds={"bootstrap": 300.0}) as r:
        for prefiller in r.prefillers:
            prefiller.kill()
        replies = await asyncio.gather(*(r.complete(f"p{i}") for i in range(5)))
        assert all(right(x, f"p{i}") for i, x in enumerate(replies))
        assert await r.metric("pd_proxy_fallbacks_total", reason="no_prefiller") == 5


async def test_in_flight_is_told_by_backend() -> None:
    async with rig() as r:
        r.decoders[0].faults.held = True
        asking = asyncio.create_task(r.complete("p"))
        await until(lambda: r.decoders[0].seen)
        labels = {"tier": "decode", "backend": "decoder-0"}
        assert await r.metric("pd_proxy_backend_in_flight", **labels) == 1
        r.decoders[0].faults.held = False
        await asking
        assert await r.metric("pd_proxy_backend_in_flight", **labels) == 0


def test_retries_are_a_part_of_what_arrives() -> None:
    budget = RetryBudget()
    assert budget.spend(int(MOST) + 100)  # owed: the longest prompt can be saved too
    assert not budget.spend(1)
    retried = arrived = 0
    for _ in range(5000):
        budget.earn(1000)
        arrived += 1000
        while budget.spend(1000):
            retried += 1000
    assert 0.18 * arrived < retried <= 0.2 * arrived + 1000


def test_a_long_prompts_retry_costs_more() -> None:
    assert cost(4_000_000) > 100 * cost(4_000)
    assert cost(0) > 0
