"""`launch [options] -- COMMAND…`: one engine from its start to its end."""

from __future__ import annotations

import asyncio
import os
import signal

from pd_launch import signals
from pd_launch.engine import Engine
from pd_launch.log import say
from pd_launch.options import LaunchOptions
from pd_launch.supervisor import Supervisor


class Launcher:
    """Runs one engine; `run` returns the code to exit with."""

    def __init__(self, options: LaunchOptions) -> None:
        self._options = options
        self._engine = Engine(options.command, os.environ)
        self._supervisor = Supervisor(self._engine, options.health_port, options.kill_seconds)
        self._stopped = asyncio.Event()
        self._signal = 0

    async def run(self) -> int:
        """Start the engine, wait for its end."""
        loop = asyncio.get_running_loop()
        for number in signals.PASSED_ON:
            loop.add_signal_handler(number, self._on_signal, number)
        loop.add_signal_handler(signal.SIGCHLD, self._engine.reap)
        for early in signals.early:
            self._on_signal(early)
        if self._signal:
            return 128 + self._signal
        self._engine.start()
        watch = asyncio.ensure_future(self._supervisor.watch(for_ever=False))
        await self._engine.ended.wait()
        watch.cancel()
        # Ranks that outlive the first process would hold the GPUs of the next one.
        self._engine.kill()
        assert self._engine.code is not None  # noqa: S101
        return self._engine.code

    def _on_signal(self, number: int) -> None:
        if not self._signal:
            self._signal = number
            self._stopped.set()
        if self._engine.runs:
            self._supervisor.pass_on(number)
        elif self._engine.code is None:
            say(f"{signals.name(number)} before the engine was started")


async def launch(options: LaunchOptions) -> int:
    """Run the engine; the code to exit with."""
    return await Launcher(options).run()
