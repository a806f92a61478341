"""KV that a prefiller holds for a decoder that will never fetch it: another decoder lets it go.

vLLM tells the prefiller to free what a rejected request was to fetch. So another decoder of the
pairing is sent one that it must reject, with the same `kv_transfer_params`, and for a model that
there is not. Otherwise the prefiller would hold the KV until its own timeout.
"""

import asyncio
from typing import Final

from pd_proxy.attempt import Context
from pd_proxy.backends import Backend, Backends
from pd_proxy.http.fetch import FetchError, post

NO_MODEL: Final = "pd-proxy/no-such-model"
FREED: Final = "freed"
LEFT: Final = "left"
_SECONDS: Final = 10.0
_REJECTED: Final = (400, 404)


class Orphans:
    """Frees in the background; nobody waits for it."""

    def __init__(self, context: Context, backends: Backends) -> None:
        self._context = context
        self._backends = backends
        self._tasks: set[asyncio.Task[None]] = set()

    def free(self, prefiller: Backend, decoder: Backend, params: bytes) -> None:
        """The decoder is lost, or was never told; the prefiller holds what `params` stand for."""
        if prefiller not in self._backends.all():
            return  # it holds nothing any more
        now = self._context.now()
        able = [
            other
            for other in self._backends.decoders
            if other is not decoder
            and other.pod.pairing == prefiller.pod.pairing
            and other.suspect_until <= now
        ]
        if not able:
            self._context.metrics.orphans.add(LEFT)
            return
        other = min(able, key=lambda backend: backend.in_flight)
        task = asyncio.create_task(self._send(other, params))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _send(self, decoder: Backend, params: bytes) -> None:
        # Shorter than a block of any prefix cache: nothing of it could ever be found again.
        body = b'{"model":"%b","prompt":"x","max_tokens":1,"kv_transfer_params":%b}' % (
            NO_MODEL.encode(), params,
        )  # fmt: skip
        try:
            status = await post(decoder.pool, "/v1/completions", body, _SECONDS)
        except FetchError:
            status = 0
        self._context.metrics.orphans.add(FREED if status in _REJECTED else LEFT)
