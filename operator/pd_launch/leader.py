"""The first pod of a group: the others meet it here, and it says when the engines start."""

from __future__ import annotations

import asyncio
from typing import Callable

from pd_launch.identity import Identity
from pd_launch.link import MAX_BYTES, Link, LinkLostError, Message, text
from pd_launch.listen import listener
from pd_launch.log import say
from pd_launch.member import Member

RESOLVE_SECONDS = 1.0
"""Between two tries to resolve the leader's own name, which its engine will need."""


class Leader(Member):
    """Takes in the workers that the group's size asks for, and nobody else."""

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
        self._links: dict[int, Link] = {}
        self._open = 0
        self._complete = asyncio.Event()
        self._started = False
        self._healthy = False
        self._server: asyncio.AbstractServer | None = None

    async def join(self) -> None:
        """Wait until every worker is there, then start them all."""
        sock = listener(self._port)
        self._server = await asyncio.start_server(self._connected, sock=sock, limit=MAX_BYTES)
        say(f"leader of {self.me.group}: waits for {self.me.size - 1} more")
        await self._resolve()
        while len(self._links) < self.me.size - 1:
            self._complete.clear()
            await self._complete.wait()
        self._started = True
        self._tell()
        say(f"all {self.me.size} members of {self.me.group} are there")

    def report(self, healthy: bool) -> None:
        """Tell the workers at once when the engine's health changes."""
        changed, self._healthy = healthy != self._healthy, healthy
        if changed:
            self._tell()

    @property
    def ready(self) -> bool:
        """Whether this pod's engine, which speaks for all, is healthy."""
        return self._healthy and not self.lost.is_set()

    def _tell(self) -> None:
        for link in self._links.values():
            link.send(self._state())

    def _state(self) -> Message:
        return {
            "incarnation": self.incarnation,
            "started": self._started,
            "healthy": self._healthy,
        }

    async def _resolve(self) -> None:
        loop = asyncio.get_running_loop()
        told = False
        while True:
            try:
                await loop.getaddrinfo(self._address, None)
                return
            except OSError as error:
                if not told:
                    say(f"{self._address} does not resolve yet: {error.strerror}")
                told = True
                await asyncio.sleep(RESOLVE_SECONDS)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        link = Link(reader, writer, self._keepalive)
        # Anybody may connect: as many as could be members at once, with room for their retries.
        if self._open >= 4 * self.me.size:
            link.close()
            return
        self._open += 1
        try:
            await self._serve(link)
        except LinkLostError as error:
            say(f"a connection before its greeting {error}")
        finally:
            self._open -= 1
            link.close()

    async def _serve(self, link: Link) -> None:
        hello = await link.receive()
        refused = self._refusal(hello)
        if refused:
            say(f"refused a member: {refused}")
            link.send({"refused": refused})
            return
        ordinal, incarnation = int(hello["ordinal"]), text(hello, "incarnation")
        self._links[ordinal] = link
        say(f"{self.me.stateful_set}-{ordinal} is there")
        self._complete.set()

        def take(message: Message) -> None:
            if text(message, "incarnation") != incarnation:
                raise LinkLostError("is another one now")
            if message.get("leaving") is True:
                self._on_leaving()

        try:
            await link.keep(self._state, take)
        except LinkLostError as error:
            del self._links[ordinal]
            reason = f"{self.me.stateful_set}-{ordinal} {error}"
            if self._started:
                self._lose(reason)
            else:
                say(reason)

    def _refusal(self, hello: Message) -> str:
        """Why a member is not taken in, in words that hold nothing of what it sent; "" if it is."""
        ordinal = hello.get("ordinal")
        known = type(ordinal) is int and ordinal in self.me.workers
        checks = (
            (hello.get("group") == self.me.group, "it is of another group"),
            (hello.get("size") == self.me.size, "its group has another size"),
            (known, "its ordinal is not of here"),
            (hello.get("revision") == self.me.revision, "it has another revision"),
            (1 <= len(text(hello, "incarnation")) <= 64, "it has no incarnation"),
            (not self._started, "the group runs already"),
            (not known or ordinal not in self._links, "its ordinal is connected already"),
        )
        return next((why for good, why in checks if not good), "")
