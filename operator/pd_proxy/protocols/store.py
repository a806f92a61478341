"""Connectors with a store between the tiers: MooncakeStoreConnector, LMCache's two.

The prefill is for the store's sake; the decoder finds by the prompt's own hashes what is there.
"""

import asyncio
import re
from dataclasses import dataclass, field
from typing import ClassVar, Final
from weakref import WeakKeyDictionary

import orjson

from pd_proxy.backends import Backend
from pd_proxy.body import Completion
from pd_proxy.http.fetch import FetchError, fetch
from pd_proxy.protocols import base
from pd_proxy.protocols.base import Bodies, KvProtocol

_CHUNK_TOKENS: Final = 256
"""LMCache's chunk, and a multiple of vLLM's usual block sizes: stores hold whole ones only."""

SAVE_SECONDS: Final = 1.0
"""How long a decode waits for its prompt's KV to be in the store; recomputing costs as much."""
_PAUSE_SECONDS: Final = 0.03
_FETCH_SECONDS: Final = 0.5
_SAVES: Final = re.compile(
    rb"^vllm:mooncake_store_operation_total\{[^}\n]*"
    rb'operation="save_(exists|put)"[^}\n]*\} ([0-9.eE+]+)',
    re.M,
)


class Store(KvProtocol):
    """First the prefill, then the decode as the client wrote it."""

    recomputes: ClassVar[bool] = True

    def obstacle(self, body: Completion) -> str | None:
        """See KvProtocol. Any number of sequences can load the same KV."""
        return base.obstacle_to_split(body)

    def bodies(self, body: Completion, prefiller: Backend) -> Bodies:
        """See KvProtocol."""
        fields = base.one_token(body)
        fields.pop("best_of", None)
        return Bodies(orjson.dumps(fields), b"", None)

    def expected(self, tokens: int) -> int:
        """See KvProtocol: whole chunks, and the last token is always computed."""
        return max(0, tokens - 1) // _CHUNK_TOKENS * _CHUNK_TOKENS


@dataclass(frozen=True, slots=True)
class Saves:
    """How many lookups before a save, and how many saves, a prefiller has done."""

    lookups: float
    puts: float


@dataclass(slots=True)
class _Watch:
    """What is known of one prefiller's saves."""

    told: Saves | None = None
    waiting: int = 0
    asking: asyncio.Task[Saves | None] | None = field(default=None)


class MooncakeStore(Store):
    """The prefiller answers before it has saved; its counters say when it has.

    Each save is a lookup of what the store has already, then a put of what it lacks, one save
    after the other. The counters do not tell requests apart, so this is a good guess: where it
    errs, the decoder computes what is not there.
    """

    def __init__(self) -> None:
        self._watches: WeakKeyDictionary[Backend, _Watch] = WeakKeyDictionary()

    async def settle(self, prefiller: Backend, tokens: int, seconds: float) -> None:
        """See KvProtocol."""
        if self.expected(tokens) == 0:
            return  # computed sooner than looked up
        watch = self._watches.setdefault(prefiller, _Watch())
        before = watch.told
        watch.waiting += 1
        ahead = watch.waiting
        try:
            async with asyncio.timeout(min(seconds, SAVE_SECONDS)):
                await self._saved(prefiller, watch, before, ahead)
        except TimeoutError:
            pass
        finally:
            watch.waiting -= 1

    async def _saved(
        self, prefiller: Backend, watch: _Watch, before: Saves | None, lookups: int
    ) -> None:
        """Return once so many more lookups are done, and the puts that follow them."""
        last = None
        while True:
            told = await self._ask(prefiller, watch)
            if told is None or before is None:
                return  # no counters, or nothing to compare them with
            if told.lookups >= before.lookups + lookups and (
                told.puts > before.puts or told == last
            ):
                return
            last = told
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _ask(self, prefiller: Backend, watch: _Watch) -> Saves | None:
        """One question at a time to each prefiller, for all who wait."""
        if watch.asking is None:
            watch.asking = asyncio.create_task(_read(prefiller))
            watch.asking.add_done_callback(lambda task: _learn(watch, task))
        return await asyncio.shield(watch.asking)


def _learn(watch: _Watch, task: asyncio.Task[Saves | None]) -> None:
    watch.asking = None
    if not task.cancelled() and (told := task.result()) is not None:
        watch.told = told


async def _read(prefiller: Backend) -> Saves | None:
    try:
        return read_saves(await fetch(prefiller.pool, "/metrics", _FETCH_SECONDS))
    except FetchError:
        return None


def read_saves(text: bytes) -> Saves | None:
    """The counters over all of a pod's engines, from its /metrics; None where there are none."""
    counts = {b"exists": 0.0, b"put": 0.0}
    found = _SAVES.findall(text)
    for operation, value in found:
        try:
            counts[operation] += float(value)
        except ValueError:
            return None
    return Saves(counts[b"exists"], counts[b"put"]) if found else None
