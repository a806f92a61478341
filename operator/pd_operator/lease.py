"""Leadership by a Lease of the Kubernetes API.

Clocks of two machines may differ by any amount, so no time in the Lease is ever compared with the
own clock: a Lease counts as expired when it has not changed for its duration while being watched.
"""

import asyncio
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from pd_operator.client import Api
from pd_operator.errors import ApiError
from pd_operator.kinds import LEASE

_LOG: Final = logging.getLogger(__name__)

NAME: Final = "pd-operator"


@dataclass(frozen=True)
class Times:
    """Seconds. A leader that could not renew for `deadline` gives up, before the others may."""

    renew: float = 2.0
    deadline: float = 10.0
    duration: float = 15.0


class Lease:
    """This process' claim to lead; `identity` must be unique among all replicas."""

    def __init__(
        self,
        api: Api,
        namespace: str,
        identity: str,
        times: Times = Times(),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._api = api
        self._namespace = namespace
        self._identity = identity
        self._times = times
        self._clock = clock
        self._renewed: float | None = None
        self._seen: tuple[object, ...] | None = None
        self._seen_at = 0.0

    @property
    def held(self) -> bool:
        """Whether this process leads now; false as soon as another one might think it leads."""
        return self._renewed is not None and self._clock() - self._renewed < self._times.deadline

    async def acquire(self) -> None:
        """Wait until this process leads."""
        holder: str | None = None
        while True:
            found = await self._attempt()
            if self.held:
                _LOG.info("leading as %s", self._identity)
                return
            if found != holder:
                _LOG.info("standing by: %s leads", found or "nobody yet")
                holder = found
            await asyncio.sleep(self._times.renew)

    async def keep(self) -> None:
        """Renew until leadership is lost; then return."""
        while self.held:
            await asyncio.sleep(self._times.renew)
            left = self._times.deadline - (self._clock() - (self._renewed or 0.0))
            try:
                async with asyncio.timeout(max(left, 0.0)):
                    holder = await self._attempt()
            except TimeoutError:
                continue
            if holder is not None and holder != self._identity:
                self._renewed = None
        _LOG.error("leadership lost")

    async def release(self) -> None:
        """Give the Lease back, so that a standby takes over at once; never raises."""
        if not self.held:
            return
        try:
            found = await self._api.get(LEASE, self._namespace, NAME)
            if found is not None and found["spec"].get("holderIdentity") == self._identity:
                found["spec"]["holderIdentity"] = ""
                await self._api.replace(found)
                _LOG.info("gave leadership back")
        except ApiError as error:
            _LOG.warning("could not give leadership back: %s", error)
        finally:
            self._renewed = None

    async def _attempt(self) -> str | None:
        """Try to take or renew; returns who holds the Lease, None where that is unknown."""
        # From before the request: the others count from when the API server had it.
        started = self._clock()
        try:
            found = await self._api.get(LEASE, self._namespace, NAME)
            if found is None:
                await self._api.create(self._manifest({}, 0))
            else:
                spec = found["spec"]
                holder = spec.get("holderIdentity") or ""
                if holder not in ("", self._identity) and not self._expired(found, started):
                    return str(holder)
                found["spec"] = self._manifest(spec, spec.get("leaseTransitions") or 0)["spec"]
                await self._api.replace(found)
        except ApiError as error:
            if error.status != 409:  # Somebody else was quicker: the next look tells who.
                _LOG.warning("could not reach for the Lease %s: %s", NAME, error)
            return None
        self._renewed = started
        return self._identity

    def _expired(self, found: dict[str, Any], now: float) -> bool:
        spec = found["spec"]
        seen = (
            found["metadata"].get("resourceVersion"),
            spec.get("holderIdentity"),
            spec.get("renewTime"),
        )
        if seen != self._seen:
            self._seen, self._seen_at = seen, now
        duration = spec.get("leaseDurationSeconds") or self._times.duration
        return now - self._seen_at >= duration

    def _manifest(self, before: dict[str, Any], transitions: int) -> dict[str, Any]:
        now = datetime.now(UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        again = before.get("holderIdentity") == self._identity
        return {
            "apiVersion": LEASE.api_version,
            "kind": LEASE.name,
            "metadata": {"name": NAME, "namespace": self._namespace},
            "spec": {
                "holderIdentity": self._identity,
                "leaseDurationSeconds": max(1, round(self._times.duration)),
                "acquireTime": before.get("acquireTime", now) if again else now,
                "renewTime": now,
                "leaseTransitions": transitions if again else transitions + 1,
            },
        }
