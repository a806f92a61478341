"""`launch [options] -- COMMAND…`: one engine from its start to its end."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from pd_launch import signals, sysfs
from pd_launch.engine import Engine
from pd_launch.environment import applied
from pd_launch.identity import substituted
from pd_launch.leader import Leader
from pd_launch.log import say
from pd_launch.member import Member
from pd_launch.options import GroupOptions, LaunchOptions
from pd_launch.status import StatusServer
from pd_launch.supervisor import Supervisor
from pd_launch.worker import Worker

GROUP_LOST = 75
"""Exit code of a member that had to end because another one did."""

NO_PORT = 1


class Launcher:
    """Runs one engine; `run` returns the code to exit with."""

    def __init__(self, options: LaunchOptions) -> None:
        self._options = options
        self._engine = Engine(_environment(options.environment))
        self._supervisor = Supervisor(self._engine, options.health_port, options.kill_seconds)
        self._member = self._membership(options.group) if options.group else None
        self._stopped = asyncio.Event()
        self._signal = 0
        self._tasks: list[asyncio.Future[Any]] = []

    async def run(self) -> int:
        """Meet the group, start the engine, wait for its end."""
        loop = asyncio.get_running_loop()
        for number in signals.PASSED_ON:
            loop.add_signal_handler(number, self._on_signal, number)
        loop.add_signal_handler(signal.SIGCHLD, self._engine.reap)
        for early in signals.early:
            self._on_signal(early)
        if self._member:
            try:
                await self._meet(self._member)
            except OSError as error:
                say(f"cannot listen: {error}")
                return NO_PORT
        if self._signal:
            return 128 + self._signal
        self._engine.start(self._command())
        self._watch()
        await self._engine.ended.wait()
        # Ranks that outlive the first process would hold the GPUs of the next one.
        self._engine.kill()
        return self._code()

    def _membership(self, group: GroupOptions) -> Member:
        kind = Worker if group.me.rank else Leader
        return kind(group.me, group.port, group.keepalive, self._on_leaving, group.leader_address)

    async def _meet(self, member: Member) -> None:
        group = self._options.group
        assert group  # noqa: S101
        checks = {"/ready": lambda: member.ready and not self._signal, "/live": self._lives}
        await StatusServer(group.health_port, checks).start()
        joined = self._background(member.join())
        stopped = self._background(self._stopped.wait())
        await asyncio.wait({joined, stopped}, return_when=asyncio.FIRST_COMPLETED)
        if joined.done():
            joined.result()

    def _command(self) -> list[str]:
        group = self._options.group
        if not group:
            return list(self._options.command)
        more = group.worker_arguments if group.me.rank else group.leader_arguments
        command = [*self._options.command, *more]
        return substituted(command, group.me, group.leader_address, group.ranks_per_node)

    def _watch(self) -> None:
        if not self._member:
            self._background(self._supervisor.watch())
            return
        if isinstance(self._member, Leader):
            # The other pods have no HTTP server of their own.
            self._background(self._supervisor.watch(self._member.report))
        self._background(self._end_with_group(self._member))

    async def _end_with_group(self, member: Member) -> None:
        await member.lost.wait()
        self._supervisor.abort("its group is lost")

    def _code(self) -> int:
        code = self._engine.code
        assert code is not None  # noqa: S101
        if self._supervisor.aborted:
            return 128 + self._signal if self._signal else GROUP_LOST
        return code

    def _lives(self) -> bool:
        leads = isinstance(self._member, Leader)
        return not leads or not self._supervisor.started or self._supervisor.healthy

    def _on_leaving(self) -> None:
        if not self._signal:
            say("another member was told to stop: the group drains")
            self._on_signal(signal.SIGTERM)

    def _on_signal(self, number: int) -> None:
        if not self._signal:
            self._signal = number
            self._stopped.set()
        if not self._engine.runs:
            if self._engine.code is None:
                say(f"{signals.name(number)} before the engine was started")
        elif self._member and self._member.leave():
            say(f"{signals.name(number)}: the leader drains first")
        else:
            self._supervisor.pass_on(number)

    def _background(self, work: Coroutine[Any, Any, Any]) -> asyncio.Future[Any]:
        task = asyncio.ensure_future(work)
        self._tasks.append(task)
        return task


def _environment(path: str) -> dict[str, str]:
    return applied(os.environ, sysfs.read(Path(path))) if path else dict(os.environ)


async def launch(options: LaunchOptions) -> int:
    """Run the engine; the code to exit with."""
    return await Launcher(options).run()
