"""Random schedules of faults: each request ends once, right or with one well-formed error.

HYPOTHESIS_PROFILE=search looks for more.
"""

import asyncio
import os
from dataclasses import dataclass
from typing import Final

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from pd_shared import labels
from tests.engine_sim import DECODER, PREFILLER, Engine, answers
from tests.engine_sim.client import Client, Reply
from tests.engine_sim.faults import Faults
from tests.engine_sim.rig import Rig, completion, rig, until

EXAMPLES: Final = 12 if os.environ.get("HYPOTHESIS_PROFILE", "gate") == "gate" else 400
SECONDS: Final = {"prefill": 0.3, "firstToken": 1.2, "betweenTokens": 0.3, "bootstrap": 0.2}
TOKENS: Final = 4
PAIRS: Final = 2
HANG_SECONDS: Final = 60.0
"""Whatever the schedule: later than this, a request hangs."""


@dataclass(frozen=True)
class Fault:
    """What happens to an engine before a request is sent; `number` as the fault needs it."""

    kind: str
    engine: int
    """Prefillers first, then decoders."""
    number: int

    async def strike(self, r: Rig, incarnation: int) -> None:
        engine = [*r.prefillers, *r.decoders][self.engine]
        faults = engine.faults
        if self.kind == "garbage_times" and engine.tier == DECODER:
            return  # what a decoder says in one piece is passed on as it is
        if self.kind == "killed and back":
            await engine.restart()
            r.update(engine, incarnation=str(incarnation))
        elif self.kind == "restarted unseen":
            await engine.restart()
        elif self.kind == "gone and back":
            pods = r.pods()
            engine.kill()
            r.remove(engine)
            await asyncio.sleep(0.02)
            await engine.start()
            new = [pod for pod in pods if pod.uid == engine.name]
            r.proxy.backends.update([*r.pods(), *new])
        elif self.kind == "loses its KV":
            engine.store.forget()
        elif self.kind == "healed":
            engine.faults = Faults()
        elif self.kind in ("hang", "bootstrap_down", "params_missing", "cut_event"):
            setattr(faults, self.kind, True)
        elif self.kind == "slow_kv":
            faults.slow_kv = 0.1 * self.number
        else:
            setattr(faults, self.kind, self.number)


EITHER: Final = (
    "killed and back", "restarted unseen", "gone and back", "hang", "status_times", "reset_times",
    "healed", "healed",
)  # fmt: skip
PREFILL: Final = (*EITHER, "bootstrap_down", "garbage_times", "loses its KV", "params_missing")
DECODE: Final = (
    *EITHER, "slow_kv", "die_after_tokens", "cut_event", "stall_after_tokens",
    "end_without_done_after", "error_event_times",
)  # fmt: skip
FAULT: Final = st.one_of(
    st.builds(Fault, st.sampled_from(PREFILL), st.integers(0, PAIRS - 1), st.integers(1, 3)),
    st.builds(Fault, st.sampled_from(DECODE), st.integers(PAIRS, 2 * PAIRS - 1), st.integers(0, 3)),
)
SCHEDULE: Final = st.lists(
    st.tuples(st.booleans(), st.sampled_from((0.0, 0.0, 0.01)), st.lists(FAULT, max_size=2)),
    min_size=1,
    max_size=16,
)
"""Requests: whether it streams, the pause before it, and the faults that come before it."""


async def ask(r: Rig, prompt: str, stream: bool) -> Reply:
    """One request, and another on the same connection, so that nothing came behind the answer."""
    client = await Client.open(r.port)
    client.post("/v1/completions", completion(prompt, stream=stream))
    reply = await client.reply()
    client.send("GET", "/no/such/path")
    assert (await client.reply()).status == 404
    client.close()
    return reply


def well_ended(reply: Reply, prompt: str) -> bool:
    """Full and right, or one error in OpenAI's shape behind nothing that is wrong."""
    parts = answers.tokens(prompt, TOKENS)
    if not reply.whole:
        return False
    if reply.status != 200:
        return reply.status in (429, 500, 502, 503, 504) and "message" in reply.error
    if not reply.headers["content-type"].startswith("text/event-stream"):
        return reply.text() == "".join(parts)
    *events, last = reply.events()
    if "error" not in last:
        return [e["choices"][0]["text"] for e in (*events, last)] == parts
    got = [e["choices"][0]["text"] for e in events]
    finished = [e["choices"][0]["finish_reason"] for e in events]
    return got == parts[: len(got)] and not any(finished[: TOKENS - 1])


def transfers(engines: list[Engine]) -> list[str]:
    """The transfer ids that engines were given."""
    given_params = [seen.body.get("kv_transfer_params") or {} for e in engines for seen in e.seen]
    return [params["transfer_id"] for params in given_params if "transfer_id" in params]


def quiet(r: Rig) -> bool:
    backends = r.proxy.backends.all()
    return r.proxy.api.in_flight == 0 and not any(b.in_flight or b.holders for b in backends)


async def recovered(r: Rig) -> Reply:
    """A full answer, which comes again whatever there was."""
    while True:
        reply = await ask(r, "after", True)
        if reply.status == 200 and "error" not in reply.events()[-1]:
            return reply
        await asyncio.sleep(0.05)


async def run(schedule: list[tuple[bool, float, list[Fault]]], connector: str) -> None:
    async with rig(
        prefillers=0 if connector == labels.COLOCATED else PAIRS,
        decoders=PAIRS,
        seconds=SECONDS,
        per_token=0.001,
        connector=connector,
    ) as r:
        if connector == labels.COLOCATED:
            r.prefillers.extend(r.decoders)  # the faults of either tier strike them
        asking = []
        incarnation = 1
        async with asyncio.timeout(HANG_SECONDS):
            for number, (stream, pause, faults) in enumerate(schedule):
                for fault in faults:
                    incarnation += 1
                    await fault.strike(r, incarnation)
                await asyncio.sleep(pause)
                asking.append(asyncio.create_task(ask(r, f"prompt {number}", stream)))
            replies = await asyncio.gather(*asking)
            for number, reply in enumerate(replies):
                assert well_ended(reply, f"prompt {number}"), (number, reply)
            await until(lambda: quiet(r))
            for engine in (*r.prefillers, *r.decoders):
                engine.faults = Faults()
            reply = await recovered(r)
            assert well_ended(reply, "after")
        assert r.proxy.metrics.internal_errors == 0
        for tier in (PREFILLER, DECODER):
            used = transfers([e for e in {id(e): e for e in (*r.prefillers, *r.decoders)}.values()
                              if e.tier == tier])  # fmt: skip
            assert len(used) == len(set(used)), "a transfer id was used twice"


@pytest.mark.parametrize(
    "connector", [labels.MOONCAKE_CONNECTOR, labels.NIXL, labels.MOONCAKE_STORE, labels.COLOCATED]
)
@settings(
    deadline=None, max_examples=EXAMPLES, suppress_health_check=list(HealthCheck),
    report_multiple_bugs=False,
)  # fmt: skip
@given(schedule=SCHEDULE)
def test_any_schedule_of_faults_ends_each_request_once(
    connector: str, schedule: list[tuple[bool, float, list[Fault]]]
) -> None:
    asyncio.run(run(schedule, connector))
