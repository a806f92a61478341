"""How a test or a person makes a simulated engine do wrong: /sim/…, which is not vLLM's.

`POST /sim/faults` with fields of `Faults`; `POST /sim/restart` (a new engine id, connections
cut, KV lost), `/sim/forget` (KV lost, nothing else), `/sim/die` (the process); `GET /sim/state`.
"""

from __future__ import annotations

import asyncio
import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tests.engine_sim.engine import Engine
    from tests.engine_sim.wire import Request, Response

PREFIX: Final = "/sim/"
_KILLED: Final = 137
_tasks: set[asyncio.Task[None]] = set()


async def serve(engine: Engine, request: Request, response: Response) -> None:
    """Answer, then do it."""
    what = request.path.removeprefix(PREFIX)
    if what == "state":
        response.send(
            200,
            {
                "engine_id": engine.store.engine_id,
                "held": len(engine.store.held),
                "expired": engine.store.expired,
                "fetched": engine.store.fetched,
                "running": engine.running,
                "aborted": engine.aborted,
                "faults": asdict(engine.faults),
            },
        )
    elif request.method != "POST" or what not in ("faults", "restart", "forget", "die"):
        response.send(404, {"detail": "Not Found"})
    elif what == "faults":
        wanted = request.json()
        unknown = wanted.keys() - asdict(engine.faults).keys()
        if unknown:
            response.send(400, {"detail": f"no such fault: {', '.join(sorted(unknown))}"})
            return
        for key, value in wanted.items():
            setattr(engine.faults, key, value)
        response.send(200, {})
    else:
        response.send(200, {})
        await asyncio.sleep(0)
        if what == "forget":
            engine.store.forget()
        elif what == "die":
            asyncio.get_running_loop().call_later(0.05, os._exit, _KILLED)
        else:
            # Not in this task: the restart ends it with its connection.
            task = asyncio.create_task(engine.restart())
            _tasks.add(task)
            task.add_done_callback(_tasks.discard)
