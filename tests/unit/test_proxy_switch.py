"""From one connector to another, and from whole engines to pairs, under load."""

import asyncio
from dataclasses import dataclass, field

import pytest

from pd_proxy.backends import DRAINING
from pd_shared import labels
from tests.engine_sim import DECODER, PREFILLER, Engine, SharedStore, answers
from tests.engine_sim.client import Reply
from tests.engine_sim.rig import Rig, rig, until


@dataclass
class Load:
    """Requests all the time; each must be answered, and right."""

    r: Rig
    replies: list[tuple[str, Reply]] = field(default_factory=list)
    stopped: bool = False

    async def run(self) -> None:
        async def one(worker: int) -> None:
            number = 0
            while not self.stopped:
                number += 1
                prompt = f"w{worker} n{number}"
                reply = await self.r.complete(prompt, stream=number % 2 == 0)
                self.replies.append((prompt, reply))

        await asyncio.gather(*(one(worker) for worker in range(8)))

    async def more(self, count: int = 60) -> list[Reply]:
        """So many further answers."""
        before = len(self.replies)
        await until(lambda: len(self.replies) >= before + count)
        return [reply for _, reply in self.replies[before:]]

    def check(self) -> None:
        for prompt, reply in self.replies:
            assert reply.status == 200, (prompt, reply)
            assert reply.text() == "".join(answers.tokens(prompt, 4))


async def leave(r: Rig, *engines: Engine) -> None:
    """As a pod goes: chosen no more, then, once its work is done, gone."""
    for engine in engines:
        r.update(engine, state=DRAINING)
    held = [b for b in r.proxy.backends.all() if b.pod.state == DRAINING]
    await until(lambda: not any(b.in_flight for b in held))
    for engine in engines:
        r.remove(engine)
        engine.kill()


@pytest.mark.parametrize("after", [c for c in labels.CONNECTORS if c != labels.COLOCATED])
@pytest.mark.parametrize("before", [labels.MOONCAKE_CONNECTOR, labels.COLOCATED])
async def test_a_switch_under_load_fails_no_request(before: str, after: str) -> None:
    shared = SharedStore()
    prefillers = 0 if before == labels.COLOCATED else 1
    async with rig(prefillers, 2, connector=before, per_token=0.001) as r:
        load = Load(r)
        running = asyncio.create_task(load.run())
        await load.more()
        # New decoders come before new prefillers: nothing may go to them alone.
        new = [
            Engine(DECODER, f"new-decoder-{i}", connector=after, shared=shared) for i in range(2)
        ]
        for engine in new:
            await r.add(engine, "new")
        await load.more()
        assert not any(engine.seen for engine in new)
        prefiller = Engine(PREFILLER, "new-prefiller", connector=after, shared=shared)
        await r.add(prefiller, "new")
        await r.learned()
        both = {reply.headers["x-pd-decoder"] for reply in await load.more(120)}
        assert {name.startswith("new") for name in both} == {True, False}
        await leave(r, *r.decoders, *r.prefillers)
        last = await load.more()
        assert {x.headers.get("x-pd-prefiller") for x in last[-20:]} == {"new-prefiller"}
        load.stopped = True
        await running
        load.check()
        assert r.proxy.metrics.fallbacks.values == {}
        assert r.proxy.metrics.internal_errors == 0
        assert set(r.proxy.metrics.requests.values.items()) >= {("ok", len(load.replies))}


async def test_a_switch_to_whole_engines_under_load_fails_no_request() -> None:
    async with rig(decoders=2, connector=labels.NIXL, per_token=0.001) as r:
        load = Load(r)
        running = asyncio.create_task(load.run())
        await load.more()
        await r.add(Engine(DECODER, "whole", connector=labels.COLOCATED), "new")
        await load.more(120)
        await leave(r, *r.prefillers)
        await leave(r, *r.decoders)
        last = await load.more()
        assert {reply.headers["x-pd-decoder"] for reply in last[-20:]} == {"whole"}
        load.stopped = True
        await running
        load.check()
        assert r.proxy.metrics.fallbacks.values == {}


async def test_prefillers_that_die_under_load_fail_no_request() -> None:
    async with rig(prefillers=2, decoders=2, connector=labels.NIXL, per_token=0.001) as r:
        load = Load(r)
        running = asyncio.create_task(load.run())
        for _ in range(4):
            await load.more(30)
            await r.prefillers[0].restart()
        load.stopped = True
        await running
        load.check()
