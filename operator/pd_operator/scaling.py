"""The autoscaler's edge: reads the proxies of every PDDeployment, and says when to reconcile."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Collection
from dataclasses import dataclass, field
from typing import Final

from pd_operator.api.deployment import PDDeployment
from pd_operator.autoscale.policy import policy_of
from pd_operator.autoscale.publish import Shown, show
from pd_operator.autoscale.sample import ProxySample
from pd_operator.autoscale.track import TRAFFIC_SECONDS, Fleet, TierFleet, Track, Traffic
from pd_operator.observe import Snapshot
from pd_operator.scrape import ScrapeError
from pd_operator.traffic import Outlook, TrafficView
from pd_shared import labels

WINDOW_INTERVALS: Final = 4
WINDOW_LEAST_SECONDS: Final = 10.0
"""Signals are taken over so many intervals, and at least so long."""
FORGET_SECONDS: Final = 900.0
"""A PDDeployment that was not reconciled for so long is not this process's any more."""

_LOG: Final = logging.getLogger(__name__)

Key = tuple[str, str]
Scrape = Callable[[str], Awaitable[ProxySample]]
Wake = Callable[[str, str], None]


@dataclass
class _Target:
    """One PDDeployment that is watched."""

    deployment: PDDeployment
    fleet: Fleet
    addresses: dict[str, str]
    """Pod IP of each proxy, by the pod's UID."""
    looked: float
    track: Track = field(default_factory=Track)
    shown: Shown | None = None
    tried: dict[str, float] = field(default_factory=dict)
    """When each proxy was last asked."""
    failing: set[str] = field(default_factory=set)
    asking: set[str] = field(default_factory=set)
    """Never twice at once: two answers of one proxy could change places."""


class ProxyScaler:
    """Keeps the window of each PDDeployment and decides on it.

    `interval` is the seconds between two scrapes, `scrape` reads the proxy with a pod IP and
    raises ScrapeError, `wake` is called with namespace and name when there is something new to
    show or to do. `clock` is monotonic.
    """

    def __init__(
        self,
        interval: float,
        scrape: Scrape,
        wake: Wake,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._interval = interval
        self._scrape = scrape
        self._wake = wake
        self._clock = clock
        self._window = max(WINDOW_LEAST_SECONDS, WINDOW_INTERVALS * interval)
        self._targets: dict[Key, _Target] = {}

    async def look(self, deployment: PDDeployment, snapshot: Snapshot) -> Outlook:
        """What the proxies tell; asks those that were not asked for an interval. Never raises."""
        key = (deployment.metadata.namespace, deployment.metadata.name)
        addresses = {
            pod.uid: pod.ip for pod in snapshot.pods_of(labels.PROXY) if pod.ip and pod.uid
        }
        now = self._clock()
        target = self._targets.get(key)
        if target is None or target.deployment.metadata.uid != deployment.metadata.uid:
            target = _Target(deployment, fleet(deployment, snapshot), addresses, now)
            self._targets[key] = target
        target.deployment, target.fleet = deployment, fleet(deployment, snapshot)
        target.addresses, target.looked = addresses, now
        # A proxy that comes or goes may not answer at all: a reconcile does not wait for that.
        await self._renew(target, self._interval, target.fleet.proxies)
        return _outlook(target)

    def forget(self, namespace: str, name: str) -> None:
        """Drop what is remembered of a PDDeployment that is gone."""
        self._targets.pop((namespace, name), None)

    async def run(self) -> None:
        """Read all proxies every interval, until cancelled."""
        while True:
            started = self._clock()
            await self.round()
            spent = self._clock() - started
            await asyncio.sleep(max(self._interval - spent, self._interval / 10))

    async def round(self) -> None:
        """Read all proxies once, and wake the PDDeployments that have something new."""
        now = self._clock()
        for key, target in list(self._targets.items()):
            if now - target.looked > FORGET_SECONDS:
                del self._targets[key]
        targets = list(self._targets.items())
        await asyncio.gather(*(self._round(key, target) for key, target in targets))

    async def _round(self, key: Key, target: _Target) -> None:
        before = target.shown
        # Half an interval: a look between two rounds must not push the next scrape out.
        await self._renew(target, self._interval / 2, target.addresses.keys())
        if target.shown != before and self._targets.get(key) is target:
            self._wake(*key)

    async def _renew(self, target: _Target, age: float, proxies: Collection[str]) -> None:
        """Ask those of the proxies that were not asked for `age` seconds, and decide."""
        try:
            await self._ask(target, age, proxies)
            self._decide(target)
        except Exception:
            # One PDDeployment that breaks the rule must neither stop the others' nor its own
            # reconcile: the last decision stands.
            _LOG.exception("autoscaling of %s failed", target.deployment.metadata.name)

    async def _ask(self, target: _Target, age: float, proxies: Collection[str]) -> None:
        now = self._clock()
        due = {
            uid: address
            for uid, address in target.addresses.items()
            if uid in proxies
            and uid not in target.asking
            and (uid not in target.tried or now - target.tried[uid] >= age)
        }
        target.tried = {
            uid: now if uid in due else tried
            for uid, tried in {**target.tried, **dict.fromkeys(due, now)}.items()
            if uid in target.addresses
        }
        target.asking.update(due)
        await asyncio.gather(*(self._ask_one(target, uid, ip) for uid, ip in due.items()))

    async def _ask_one(self, target: _Target, uid: str, address: str) -> None:
        try:
            sample = await self._scrape(address)
        except ScrapeError as error:
            if uid in target.fleet.proxies and uid not in target.failing:
                target.failing.add(uid)
                _LOG.warning("%s: %s", target.deployment.metadata.name, error)
            return
        finally:
            target.asking.discard(uid)
        target.failing.discard(uid)
        target.track = target.track.record(uid, self._clock(), sample, self._interval)

    def _decide(self, target: _Target) -> None:
        now = self._clock()
        spec = target.deployment.spec
        policy = policy_of(spec.autoscaling, self._window, colocated=spec.colocated)
        target.track = target.track.decided(target.fleet, policy, self._interval, now)
        traffic = target.track.traffic(target.fleet, self._interval, now)
        target.shown = show(target.shown, target.track.last, traffic, now)


def fleet(deployment: PDDeployment, snapshot: Snapshot) -> Fleet:
    """What a decision needs of the snapshot."""
    spec = deployment.spec
    decode = _tier(labels.DECODER, spec.decode.replicas, snapshot)
    return Fleet(
        proxies=frozenset(
            pod.uid
            for pod in snapshot.pods_of(labels.PROXY)
            if pod.ready and not pod.terminating and pod.ip
        ),
        prefill=decode
        if spec.colocated
        else _tier(labels.PREFILLER, spec.prefill.replicas, snapshot),
        decode=decode,
    )


def _tier(component: str, replicas: int | None, snapshot: Snapshot) -> TierFleet:
    # While a tier rolls, its old and new StatefulSet share the replicas between them.
    applied = [s.replicas for s in snapshot.tier(component) if not s.deleting]
    return TierFleet(
        wanted=1 if replicas is None else replicas,
        applied=max(applied, default=None),
        ready=snapshot.ready(component),
    )


def _outlook(target: _Target) -> Outlook:
    shown, colocated = target.shown, target.deployment.spec.colocated
    if shown is None:
        return Outlook()
    return Outlook(
        traffic=_view(shown.traffic),
        prefill=shown.prefill.decision if shown.prefill and not colocated else None,
        decode=shown.decode.decision if shown.decode else None,
    )


def _view(traffic: Traffic) -> TrafficView:
    return TrafficView(
        kv_expected=traffic.proof.expected,
        kv_moved=traffic.proof.moved,
        kv_recomputed=traffic.proof.recomputed,
        window_seconds=TRAFFIC_SECONDS,
        ttft_p95=traffic.ttft_p95,
        tpot_p95=traffic.tpot_p95,
        requests=traffic.requests,
        fresh=traffic.fresh,
        kv_settled_expected=traffic.proof.settled_expected,
        kv_settled_moved=traffic.proof.settled_moved,
        kv_moves=traffic.proof.moves,
        kv_broken=traffic.proof.broken,
    )
