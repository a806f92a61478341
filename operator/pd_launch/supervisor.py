"""Watches over the engine: its health, and that it ends when it is told to."""

from __future__ import annotations

import asyncio
import signal
from typing import Callable

from pd_launch import health
from pd_launch.engine import Engine
from pd_launch.health import Health
from pd_launch.log import say
from pd_launch.signals import name

WATCH_SECONDS = 2.0
"""Between two looks at the engine's health."""

KILL_SECONDS = 10.0
"""After which an engine that is not in service and was told to end is killed."""


class Supervisor:
    """Passes signals on to `engine`, whose HTTP server is on `port`."""

    def __init__(self, engine: Engine, port: int, kill_seconds: float = KILL_SECONDS) -> None:
        self._engine = engine
        self._port = port
        self._kill_seconds = kill_seconds
        self._sent: set[int] = set()
        self.aborted = False
        """Whether the engine had to end for another reason than a signal."""
        self.started = False
        """Whether the engine has ever served; before that it drops nothing when it is killed."""
        self.healthy = False

    async def watch(self, report: Callable[[bool], None] | None = None) -> None:
        """Look at the engine's health until it has started, or for ever when somebody asks."""
        while self._engine.runs and (report or not self.started):
            found = await health.ask(self._port)
            healthy = found is Health.HEALTHY
            if healthy is not self.healthy:
                say(f"the engine is {'healthy' if healthy else found.value}")
            self.healthy = healthy
            # One that listens ends by itself: it drains, and its own timeout bounds that.
            self.started = self.started or found is not Health.SILENT
            if report:
                report(healthy)
            await asyncio.sleep(WATCH_SECONDS)

    def pass_on(self, number: int) -> None:
        """Give a signal to the engine: each number once, for a second one would stop its drain."""
        if number in self._sent or not self._engine.runs:
            return
        self._sent.add(number)
        state = "serves" if self.started else "is starting"
        say(f"{name(number)} passed on to the engine, which {state}")
        self._engine.send(number)
        self._later(self._kill_unless_started)

    def abort(self, reason: str) -> None:
        """End an engine that is of no use any more."""
        if self.aborted or not self._engine.runs:
            return
        self.aborted = True
        say(f"the engine must end: {reason}")
        self._engine.send(signal.SIGTERM)
        self._later(self._kill)

    def _later(self, call: Callable[[], None]) -> None:
        asyncio.get_running_loop().call_later(self._kill_seconds, call)

    def _kill_unless_started(self) -> None:
        if not self.started:
            self._kill()

    def _kill(self) -> None:
        if self._engine.runs:
            say(f"the engine has not ended in {self._kill_seconds:g} s and is killed")
            self._engine.kill()
