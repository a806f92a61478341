"""The engines that the proxy knows: one object for each incarnation of each pod."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from pd_proxy import ejection
from pd_proxy.http.upstream import Pool, authority
from pd_proxy.log import log
from pd_proxy.routing.homes import identity
from pd_shared import labels
from pd_shared import metrics as names

if TYPE_CHECKING:
    from pd_proxy.protocols import Protocols
    from pd_proxy.protocols.base import KvProtocol

READY: Final = "ready"
DRAINING: Final = "draining"
UNREADY: Final = "unready"

TIERS: Final = {labels.PREFILLER: names.TIER_PREFILL, labels.DECODER: names.TIER_DECODE}
"""Of a pod's tier, as the metrics' label `tier` names it."""


@dataclass(frozen=True)
class Pod:
    """What a source of backends tells of an engine pod."""

    uid: str
    name: str
    tier: str
    """labels.PREFILLER or labels.DECODER."""
    pairing: str
    host: str
    port: int
    bootstrap_port: int
    incarnation: str
    """Names the running container; empty where none runs."""
    state: str
    connector: str = labels.MOONCAKE_CONNECTOR
    """The value of the annotation labels.CONNECTOR, known or not."""


class Holder(Protocol):
    """Work that rests on a backend."""

    def backend_gone(self, backend: Backend) -> None:
        """The engine process is gone: what it had, such as KV, is lost."""

    def backend_doubted(self, backend: Backend) -> None:
        """The engine does not answer: what it has not begun may go elsewhere."""


@dataclass(frozen=True)
class Engine:
    """One data-parallel rank of a prefiller."""

    rank: int
    engine_id: str


class Backend:
    """One incarnation of an engine pod, and what is under way on it."""

    def __init__(
        self,
        pod: Pod,
        protocol: KvProtocol | None,
        on_ejected: Callable[[Backend], None] = lambda _: None,
    ) -> None:
        self.pod = pod
        self.protocol = protocol
        """None where the pod names a connector that is not known: it is not paired."""
        paired = protocol is not None and protocol.pairs
        self.prefills = paired and pod.tier == labels.PREFILLER
        """Whether it is a prefiller that decoders can be paired with."""
        self.whole = pod.tier == labels.DECODER and protocol is not None and not protocol.pairs
        """Whether it is an engine that needs no prefiller."""
        self.pool = Pool(pod.host, pod.port, self._idle_lost)
        self.bootstrap_url = f"http://{authority(pod.host, pod.bootstrap_port)}"
        self.proof_line = b"x-pd-%b: %b\r\n" % (pod.tier.encode(), pod.name.encode())
        self.number = identity(pod.uid)
        """See routing.homes."""
        self.in_flight = 0
        self.queued = 0
        """Bytes of the requests that it, a prefiller, has not answered yet."""
        self.others = 0
        self.kv_usage = 0.0
        """See routing.cost.Decoding."""
        self.turn = 0
        """When it was chosen last; orders equals."""
        self.suspect_until = 0.0
        """Others are preferred until then, in the loop's time."""
        self.unreachable = False
        """Whether it did not tell what must be known of it when it was asked last."""
        self.down = False
        """Whether it does not answer for its health."""
        self.holders: set[Holder] = set()
        self.engines: tuple[Engine, ...] = ()
        self.engines_known = asyncio.Event()
        self.engines_doubted = asyncio.Event()
        self.engines_asked = asyncio.Event()
        """The last question was answered, or came to nothing."""
        self._health = ejection.GOOD
        self._on_ejected = on_ejected

    def failed(self, now: float, *, grave: bool = True) -> None:
        """It did not do its work; see ejection. `now` in the loop's time."""
        before = self._health
        self._set(ejection.failed(before, now, grave=grave))
        self.doubt_engines()
        if before.good and not self._health.good:
            self._on_ejected(self)

    def hopeless(self, now: float) -> bool:
        """Whether it is down, or failed lately and its engine ids are not known since."""
        return self.down or (
            not self.engines_known.is_set() and (self.unreachable or self.suspect_until > now)
        )

    def succeeded(self) -> None:
        """It did its work."""
        if self._health is not ejection.GOOD:
            self._set(ejection.succeeded(self._health))

    def chosen(self, now: float) -> None:
        """A request goes there."""
        if self.suspect_until:
            self._set(ejection.chosen(self._health, now))

    def hold(self, until: float) -> None:
        """It is known to be down: where it is ejected, it stays so until then."""
        self._set(ejection.held(self._health, until))

    def pardon(self) -> None:
        """Forget all failures."""
        self._set(ejection.GOOD)

    @property
    def ejected(self) -> bool:
        """Whether it is ejected, or on trial."""
        return not self._health.good

    def _set(self, health: ejection.Health) -> None:
        self._health = health
        self.suspect_until = health.until

    def doubt_engines(self) -> None:
        """The engine ids may be those of a process that is no more: ask again."""
        if self.prefills:
            self.engines_known.clear()
            self.engines_asked.clear()
            self.engines_doubted.set()

    def doubt(self) -> None:
        """It does not answer: what it has not begun may start again elsewhere."""
        for holder in list(self.holders):
            holder.backend_doubted(self)

    def interrupt(self) -> None:
        """The process is gone: all that rests on it ends or starts again elsewhere."""
        for holder in list(self.holders):
            holder.backend_gone(self)

    def close(self) -> None:
        """Nothing is sent there any more."""
        self.pool.close()
        self.interrupt()

    def _idle_lost(self) -> None:
        # The engine never closes a connection so soon while it lives.
        self.doubt_engines()


class Backends:
    """The table of backends, kept by a source; lists for the choice are ready made.

    `on_new` hear of each backend that comes, `on_gone` of each that goes, `on_update` of any
    change.
    """

    def __init__(self, protocols: Protocols) -> None:
        self._protocols = protocols
        self._strange: set[str] = set()
        self._by_uid: dict[str, Backend] = {}
        self._changed = asyncio.Event()
        self.known = False
        """Whether a source has told anything yet."""
        self.decoders: Sequence[Backend] = ()
        """Ready ones."""
        self.whole: Sequence[Backend] = ()
        """Those of them that need no prefiller."""
        self.paired: dict[str, list[Backend]] = {}
        """Those of them that need one, by pairing."""
        self.prefillers: dict[str, list[Backend]] = {}
        """Ready ones, by pairing; a pairing has one connector."""
        self.ejections = dict.fromkeys(TIERS.values(), 0)
        """How often a backend was ejected, by tier as the metric names it."""
        self.on_update: list[Callable[[], None]] = []
        self.on_new: list[Callable[[Backend], None]] = []
        self.on_gone: list[Callable[[Backend], None]] = []
        self.on_restart: list[Callable[[Backend], None]] = []
        """Of each whose process turned out to be another one, while its pod is the same."""

    def update(self, pods: Iterable[Pod]) -> None:
        """Take over what a source tells: these pods, and no others."""
        self.known = True
        told = {pod.uid: pod for pod in pods}
        for uid, backend in list(self._by_uid.items()):
            pod = told.get(uid)
            if pod is None or _process(pod) != _process(backend.pod):
                del self._by_uid[uid]
                backend.close()
                for hear in self.on_gone:
                    hear(backend)
        for uid, pod in told.items():
            known = self._by_uid.get(uid)
            if known is not None:
                known.pod = pod
                continue
            self._by_uid[uid] = backend = Backend(pod, self._protocol(pod), self._eject)
            for hear in self.on_new:
                hear(backend)
        self._sort()
        self.wake()
        for hear_of_it in self.on_update:
            hear_of_it()

    def all(self) -> list[Backend]:
        """Every backend, whatever its state."""
        return list(self._by_uid.values())

    def counts(self) -> dict[tuple[str, str], int]:
        """How many there are, by tier and state as the metric names them."""
        counts = dict.fromkeys(
            ((tier, state) for tier in TIERS.values() for state in (READY, DRAINING, UNREADY)), 0
        )
        for backend in self._by_uid.values():
            counts[TIERS[backend.pod.tier], backend.pod.state] += 1
        return counts

    def wake(self) -> None:
        """Let those who wait for a change look again."""
        self._changed.set()
        self._changed = asyncio.Event()

    async def changed(self, seconds: float) -> None:
        """Wait for a change, at most so long."""
        try:
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        except TimeoutError:
            pass

    def close(self) -> None:
        """Forget all."""
        self.update(())

    def unknown_connectors(self) -> dict[str, int]:
        """How many have a connector that is not known, by tier as the metric names it."""
        counts = dict.fromkeys(TIERS.values(), 0)
        for backend in self._by_uid.values():
            counts[TIERS[backend.pod.tier]] += backend.protocol is None
        return counts

    def _eject(self, backend: Backend) -> None:
        """One was ejected; where too many are, all are as good as one another again."""
        tier = backend.pod.tier
        peers = [b for b in self._by_uid.values() if b.pod.tier == tier and b.pod.state == READY]
        others = sum(b.ejected for b in peers if b is not backend)
        if ejection.may_eject(len(peers), others):
            self.ejections[TIERS[tier]] += 1
            return
        for peer in (*peers, backend):
            peer.pardon()

    def _protocol(self, pod: Pod) -> KvProtocol | None:
        protocol = self._protocols.get(pod.connector)
        if protocol is None and pod.connector not in self._strange:
            self._strange.add(pod.connector)
            log("error", "unknown connector; its pods are not paired",
                connector=pod.connector, pod=pod.name)  # fmt: skip
        return protocol

    def _sort(self) -> None:
        ready = [b for b in self._by_uid.values() if b.pod.state == READY]
        self.decoders = [b for b in ready if b.pod.tier == labels.DECODER]
        self.whole = [b for b in self.decoders if b.whole]
        self.prefillers = {}
        self.paired = {}
        for backend in ready:
            if backend.prefills:
                self.prefillers.setdefault(backend.pod.pairing, []).append(backend)
            elif backend.pod.tier == labels.DECODER and backend.protocol and not backend.whole:
                self.paired.setdefault(backend.pod.pairing, []).append(backend)


def _process(pod: Pod) -> tuple[str, ...]:
    ports = (str(pod.port), str(pod.bootstrap_port))
    return (pod.incarnation, pod.host, *ports, pod.tier, pod.name, pod.connector)
