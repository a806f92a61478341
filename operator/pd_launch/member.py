"""What the leader and the workers of a group have in common."""

from __future__ import annotations

import asyncio
import uuid
from typing import Callable

from pd_launch.identity import Identity
from pd_launch.log import say


class Member:
    """One member of a group; `on_leaving` is called when another one was told to stop."""

    def __init__(
        self, me: Identity, port: int, keepalive: float, on_leaving: Callable[[], None]
    ) -> None:
        self.me = me
        self.incarnation = uuid.uuid4().hex
        """Of this process: a pod that restarts is another member."""
        self.lost = asyncio.Event()
        self.reason = ""
        """Why the group is lost."""
        self._port = port
        self._keepalive = keepalive
        self._on_leaving = on_leaving

    async def join(self) -> None:
        """Come back when all members are there."""
        raise NotImplementedError

    def report(self, healthy: bool) -> None:
        """Tell the group how this member's engine is."""

    @property
    def ready(self) -> bool:
        """Whether the group's engine is healthy."""
        raise NotImplementedError

    def leave(self) -> bool:
        """Ask the group to end in order; False when there is nobody to ask."""
        return False

    def _lose(self, reason: str) -> None:
        if not self.lost.is_set():
            self.reason = reason
            say(f"the group is lost: {reason}")
            self.lost.set()
