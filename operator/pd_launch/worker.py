"""The other pods of a group: they start, serve and end with their leader."""

from __future__ import annotations

import asyncio
from typing import Callable

from pd_launch.identity import Identity
from pd_launch.link import MAX_BYTES, Link, LinkLostError, Message, text
from pd_launch.log import say
from pd_launch.member import Member

CONNECT_SECONDS = 5.0
RETRY_SECONDS = 1.0


class Worker(Member):
    """Connects to the leader's address, which follows from the pod's own name."""

    def __init__(
        self,
        me: Identity,
        port: int,
        keepalive: float,
        on_leaving: Callable[[], None],
        address: str,
    ) -> None:
        super().__init__(me, port, keepalive, on_leaving)
        self._address = address
        self._link: Link | None = None
        self._leader = ""
        self._started = asyncio.Event()
        self._healthy = False
        self._leaving = False
        self._task: asyncio.Future[None] | None = None

    async def join(self) -> None:
        """Connect, again and again, until the leader says that all are there."""
        say(f"rank {self.me.rank} of {self.me.group}: looks for its leader {self._address}")
        self._task = asyncio.ensure_future(self._run())
        await self._started.wait()
        say(f"all {self.me.size} members of {self.me.group} are there")

    @property
    def ready(self) -> bool:
        """Whether the leader says that its engine is healthy."""
        return self._healthy and not self.lost.is_set()

    def leave(self) -> bool:
        """Let the leader drain first: without this rank what it still answers would fail."""
        if self._link is None or not self._started.is_set() or self.lost.is_set():
            return False
        self._leaving = True
        self._link.send(self._state())
        return True

    def _state(self) -> Message:
        return {"incarnation": self.incarnation, "leaving": self._leaving}

    async def _run(self) -> None:
        told = ""
        while True:
            try:
                await self._once()
            except LinkLostError as error:
                why = f"the leader {error}"
            except (OSError, asyncio.TimeoutError) as error:
                why = f"the leader is not there: {getattr(error, 'strerror', None) or 'no answer'}"
            if self._started.is_set():
                self._lose(why)
                return
            if why != told:
                told = why
                say(why)
            await asyncio.sleep(RETRY_SECONDS)

    async def _once(self) -> None:
        opened = asyncio.open_connection(self._address, self._port, limit=MAX_BYTES)
        reader, writer = await asyncio.wait_for(opened, CONNECT_SECONDS)
        link = Link(reader, writer, self._keepalive)
        try:
            link.send(
                {
                    "group": self.me.group,
                    "size": self.me.size,
                    "ordinal": self.me.ordinal,
                    "revision": self.me.revision,
                    "incarnation": self.incarnation,
                }
            )
            self._link = link
            self._leader = ""
            await link.keep(self._state, self._take)
        finally:
            self._link = None
            link.close()

    def _take(self, message: Message) -> None:
        if "refused" in message:
            raise LinkLostError(f"refused this pod: {text(message, 'refused')}")
        incarnation = text(message, "incarnation")
        if not incarnation or (self._leader and incarnation != self._leader):
            raise LinkLostError("is another one now")
        self._leader = incarnation
        self._healthy = message.get("healthy") is True
        if message.get("started") is True:
            self._started.set()
