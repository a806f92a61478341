"""What each decoder says of where its prompt tokens came from: the proof that KV moved."""

import asyncio
import re
from collections.abc import Callable
from typing import Final

from pd_proxy.backends import READY, Backend, Backends
from pd_proxy.http.fetch import FetchError, fetch
from pd_proxy.metrics import Labelled, Metrics
from pd_shared import labels

POLL_SECONDS: Final = 2.0
ACTIVE_SECONDS: Final = 20.0
"""So long after the last request the decoders are still asked."""
_FETCH_SECONDS: Final = 2.0
_KEPT_SECONDS: Final = 600.0
"""A decoder's series outlive it for so long."""

_SAMPLE: Final = re.compile(
    rb'^vllm:prompt_tokens_by_source_total\{[^}\n]*source="([a-z_]+)"[^}\n]*\} ([0-9.eE+]+)', re.M
)
_LOAD: Final = re.compile(
    rb"^vllm:(num_requests_running|num_requests_waiting|kv_cache_usage_perc)"
    rb"\{[^}\n]*\} ([0-9.eE+-]+)$",
    re.M,
)
_USAGE: Final = b"kv_cache_usage_perc"
_EXTERNAL: Final = "external_kv_transfer"
_CACHED: Final = "local_cache_hit"
_COMPUTED: Final = "local_compute"


class KvCounters:
    """Asks each ready decoder about every `POLL_SECONDS`, while requests come.

    The first answer of an incarnation is where counting begins.
    """

    def __init__(
        self,
        backends: Backends,
        metrics: Metrics,
        last_arrival: Callable[[], float],
        now: Callable[[], float],
        poll_seconds: float = POLL_SECONDS,
    ) -> None:
        self._backends = backends
        self._metrics = metrics
        self._last_arrival = last_arrival
        self._now = now
        self._poll_seconds = poll_seconds
        self._seen: dict[Backend, dict[str, float]] = {}
        self._gone: dict[str, float] = {}
        backends.on_gone.append(self._forget)

    async def run(self) -> None:
        """Ask until cancelled."""
        while True:
            now = self._now()
            active = now - self._last_arrival() < ACTIVE_SECONDS
            decoders = [
                backend
                for backend in self._backends.all()
                if backend.pod.tier == labels.DECODER
                and not backend.whole  # nothing should come to it
                and (backend.pod.state == READY or backend in self._seen)
                # Counting must begin before the first request.
                and (active or backend not in self._seen)
            ]
            await asyncio.gather(*(self._ask(backend) for backend in decoders))
            self._drop_old(now)
            await asyncio.sleep(self._poll_seconds)

    async def _ask(self, backend: Backend) -> None:
        own = backend.in_flight
        try:
            text = await fetch(backend.pool, "/metrics", _FETCH_SECONDS)
        except FetchError:
            return  # it is asked again; a decoder that is down is noticed by its requests
        backend.kv_usage, requests = read_load(text)
        # What this proxy has sent it, it knows better.
        backend.others = max(0, requests - max(own, backend.in_flight))
        told = read_sources(text)
        before = self._seen.get(backend)
        self._seen[backend] = told
        self._gone.pop(backend.pod.name, None)
        metrics = self._metrics
        for source, metric in (
            (_EXTERNAL, metrics.kv_moved),
            (_CACHED, metrics.kv_cached),
            (_COMPUTED, metrics.kv_recomputed),
        ):
            self._rise(metric, backend.pod.name, source, before, told)

    def _rise(
        self,
        metric: Labelled,
        decoder: str,
        source: str,
        before: dict[str, float] | None,
        told: dict[str, float],
    ) -> None:
        if before is None:
            metric.add(decoder, 0)
            return
        value, base = told.get(source, 0.0), before.get(source, 0.0)
        metric.add(decoder, value - base if value >= base else value)

    def _forget(self, backend: Backend) -> None:
        if backend.pod.tier == labels.DECODER:
            self._seen.pop(backend, None)
            self._gone[backend.pod.name] = self._now()

    def _drop_old(self, now: float) -> None:
        for name, since in list(self._gone.items()):
            if now - since > _KEPT_SECONDS:
                del self._gone[name]
                self._metrics.forget_decoder(name)


def read_load(text: bytes) -> tuple[float, int]:
    """The used part of the KV cache, of the fullest of a pod's engines, and requests on all."""
    usage, requests = 0.0, 0
    for name, value in _LOAD.findall(text):
        try:
            number = float(value)
        except ValueError:
            continue
        if not 0 <= number < 1e9:
            continue  # no such load
        if name == _USAGE:
            usage = max(usage, number)
        else:
            requests += int(number)
    return usage, requests


def read_sources(text: bytes) -> dict[str, float]:
    """Prompt tokens by source, over all of a pod's engines, from its /metrics."""
    sources: dict[str, float] = {}
    for source, value in _SAMPLE.findall(text):
        try:
            number = float(value)
        except ValueError:
            continue
        name = source.decode()
        sources[name] = sources.get(name, 0.0) + number
    return sources
