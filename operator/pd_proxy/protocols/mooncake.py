"""vLLM's MooncakeConnector: the decoder fetches from a prefiller that it is told of at once."""

import secrets
from itertools import count
from typing import ClassVar, Final

import orjson

from pd_proxy.backends import Backend, Engine
from pd_proxy.body import Completion
from pd_proxy.http.fetch import FetchError, fetch
from pd_proxy.http.upstream import Pool
from pd_proxy.protocols import base
from pd_proxy.protocols.base import Bodies, KvProtocol

_NOT_HELD: Final = (
    b'"finish_reason":"stop"',
    b'"finish_reason":"abort"',
    b'"finish_reason":"error"',
)
"""A prefiller keeps KV for its decoder only where the answer ended by its length."""


class Mooncake(KvProtocol):
    """Prefill and decode are dispatched together, joined by a transfer id of their own."""

    together: ClassVar[bool] = True

    def __init__(self) -> None:
        self._prefix = secrets.token_hex(8)
        self._numbers = count(1)

    async def learn(self, prefiller: Backend, seconds: float) -> tuple[Engine, ...]:
        """See KvProtocol: the engine ids, from the prefiller's bootstrap server."""
        pool = Pool(prefiller.pod.host, prefiller.pod.bootstrap_port, _nothing)
        try:
            return read_engines(await fetch(pool, "/query", seconds))
        finally:
            pool.close()

    def obstacle(self, body: Completion) -> str | None:
        """See KvProtocol. All choices of a request would share one transfer, so one it must be."""
        return base.obstacle_to_transfer(body)

    def bodies(self, body: Completion, prefiller: Backend) -> Bodies:
        """See KvProtocol."""
        number = next(self._numbers)
        engines = prefiller.engines
        engine = engines[number % len(engines)]
        # Never used again: a decoder given another request's id answers from the wrong KV.
        transfer = f"xfer-{self._prefix}-{number:x}"
        prefill = {"do_remote_decode": True, "do_remote_prefill": False, "transfer_id": transfer}
        decode = {
            "do_remote_decode": False,
            "do_remote_prefill": True,
            "remote_bootstrap_addr": prefiller.bootstrap_url,
            "remote_engine_id": engine.engine_id,
            "transfer_id": transfer,
        }
        params = orjson.dumps(decode)
        return Bodies(
            prefill=base.prefill_body(body, prefill),
            prefill_headers=(
                b"x-data-parallel-rank: %d\r\n" % engine.rank if len(engines) > 1 else b""
            ),
            decode=body.with_params(params),
            params=params,
        )

    def flaw(self, answer: bytes) -> str | None:
        """See KvProtocol."""
        if any(reason in answer for reason in _NOT_HELD):
            return base.NOT_HELD
        return None


def read_engines(answer: bytes) -> tuple[Engine, ...]:
    """The ranks in a bootstrap server's answer; FetchError where it makes no sense."""
    try:
        value = orjson.loads(answer)
        engines = tuple(
            Engine(int(rank), str(entry["engine_id"])) for rank, entry in sorted(value.items())
        )
    except (ValueError, KeyError, TypeError, AttributeError):
        raise FetchError("the bootstrap server's answer is not understood") from None
    if not engines:
        raise FetchError("no engine has registered yet")
    return engines


def _nothing() -> None:
    pass
