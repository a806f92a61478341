"""A simulated engine: a prefiller (kv_producer), a decoder (kv_consumer) or a whole engine."""

import asyncio
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

from pd_shared import labels
from tests.engine_sim import answers, control
from tests.engine_sim.answering import Answering
from tests.engine_sim.exposition import Counts
from tests.engine_sim.faults import Faults
from tests.engine_sim.invalid import RefusedError
from tests.engine_sim.kv import Fetcher, Store, TransferServer
from tests.engine_sim.pace import Batch, Pace
from tests.engine_sim.prefixes import Prefixes
from tests.engine_sim.shapes import error
from tests.engine_sim.shared import SharedStore
from tests.engine_sim.wire import HttpServer, Request, Response

PREFILLER: Final = "prefiller"
DECODER: Final = "decoder"

_COMPLETIONS: Final = ("/v1/completions", "/v1/chat/completions")
_GET: Final = ("/health", "/ping", "/v1/models", "/version", "/metrics", "/load")
_POST: Final = (*_COMPLETIONS, "/tokenize", "/detokenize")


@dataclass
class Seen:
    """A request that came to an engine."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]


@dataclass
class Engine:
    """One engine process on loopback; times in seconds. As a whole it is a DECODER of Colocated."""

    tier: str
    name: str = "engine"
    prefill_per_token: float = 0.0
    per_token: float = 0.0
    abort_seconds: float = 480.0
    max_model_len: int = 32768
    connector: str = labels.MOONCAKE_CONNECTOR
    """One of labels.CONNECTORS; Colocated ones are of the decoders' tier."""
    shared: SharedStore | None = None
    """The store between the tiers, for the connectors that have one."""
    ranks: int = 1
    faults: Faults = field(default_factory=Faults)
    seen: list[Seen] = field(default_factory=list)
    aborted: int = 0
    """Requests whose client left before their answer's end."""
    running: int = 0
    served: tuple[str, ...] = (answers.MODEL,)
    """The model's names; the first is the one in answers."""
    root: str = answers.MODEL
    version: str = "sim"
    host: str = "127.0.0.1"
    """Where it listens."""
    advertised: str = "127.0.0.1"
    """Where peers find it."""
    http_port: int = 0
    """This port and those below: 0 for one that the system chooses."""
    fixed_bootstrap_port: int = 0
    side_channel_port: int = 0
    pace: Pace | None = None
    """Instead of `prefill_per_token` and `per_token`."""
    max_num_seqs: int = 1 << 20
    kv_tokens: int = 1 << 20
    """How many tokens the KV cache has room for."""
    block: int = 0
    """Tokens of a block of the prefix cache; 0 for no such cache."""
    recompute: bool = True
    """kv_load_failure_policy: else a failed load fails the request."""
    api_key: str = ""
    clock: Callable[[], float] = lambda: 1.0
    """For `created`; stands still, so that answers can be compared."""
    remember: bool = True
    """Whether `seen` is kept, and paths that vLLM does not have are answered with what came."""

    def __post_init__(self) -> None:
        if self.pace is None:
            self.pace = Pace(per_token=self.prefill_per_token, step=self.per_token)
        self.http = HttpServer(self._serve, self.host, self.http_port)
        self.bootstrap = HttpServer(self._serve_bootstrap, self.host, self.fixed_bootstrap_port)
        self.transfers = TransferServer(self.host, self.side_channel_port)
        self._fresh()

    def _fresh(self) -> None:
        """The state of a new process: a new engine id, no KV, counters at zero."""
        assert self.pace is not None
        self.store = Store(self.abort_seconds)
        self.fetcher = Fetcher(self.abort_seconds)
        self.counts = Counts(self.max_model_len)
        self.batch = Batch(self.pace, self.max_num_seqs)
        self.prefixes = Prefixes(self.block, self.kv_tokens)
        self.kv_used = 0
        self.draining = False

    @property
    def port(self) -> int:
        return self.http.port

    @property
    def bootstrap_port(self) -> int:
        return self.bootstrap.port

    @property
    def sources(self) -> dict[str, int]:
        """Prompt tokens by where their KV came from."""
        return self.counts.sources

    async def start(self) -> None:
        """A new process; the same ports."""
        self._fresh()
        if self.tier == PREFILLER:
            await self.transfers.start(self.store)
            await self.bootstrap.start()
        await self.http.start()

    def kill(self) -> None:
        """SIGKILL."""
        self.http.stop()
        self.bootstrap.stop()
        self.transfers.stop()

    async def restart(self) -> None:
        """Killed, and started again at the same address."""
        self.kill()
        await self.start()

    async def drain(self, seconds: float) -> None:
        """SIGTERM with --shutdown-timeout: what runs may end, and KV may be fetched, so long."""
        self.draining = True
        loop = asyncio.get_running_loop()
        end = loop.time() + seconds
        while (self.running or self.store.held) and loop.time() < end:  # noqa: ASYNC110
            await asyncio.sleep(0.05)
        self.kill()

    async def _serve_bootstrap(self, request: Request, response: Response) -> None:
        if request.path != "/query":
            response.send(404, {"detail": "Not Found"})
        elif self.faults.bootstrap_down:
            response.send(503, {})
        else:
            address = f"tcp://{_bracketed(self.advertised)}:{self.transfers.port}"
            response.send(200, {str(rank): self._rank(rank, address) for rank in range(self.ranks)})

    def _rank(self, rank: int, address: str) -> dict[str, Any]:
        suffix = f"_dp{rank}" if self.ranks > 1 else ""
        return {"engine_id": self.store.engine_id + suffix, "worker_addr": {"0": {"0": address}}}

    async def _serve(self, request: Request, response: Response) -> None:
        path = request.path.partition("?")[0]
        if path.startswith(control.PREFIX):
            await control.serve(self, request, response)
        elif path.startswith("/v1/") and self.api_key and not self._allowed(request):
            response.send(401, {"error": "Unauthorized"})
        elif path in (*_GET, *_POST) and request.method not in _methods(path):
            response.send(405, {"detail": "Method Not Allowed"}, allow=_methods(path)[0])
        elif path in _COMPLETIONS:
            await self._serve_completion(request, response)
        elif path in _GET:
            self._serve_facts(path, response)
        elif path == "/tokenize":
            self._tokenize(request, response)
        elif self.remember and request.method == "POST":
            self.seen.append(Seen(request.path, request.headers, _json(request.body)))
            response.send(200, {"path": request.path, "size": len(request.body)})
        else:
            response.send(404, {"detail": "Not Found"})

    def _allowed(self, request: Request) -> bool:
        return request.headers.get("authorization") == f"Bearer {self.api_key}"

    def _serve_facts(self, path: str, response: Response) -> None:
        if path == "/metrics":
            kind = "text/plain; version=0.0.4; charset=utf-8"
            response.send(200, self.metrics().encode(), kind)
        elif path == "/v1/models":
            response.send(200, {"object": "list", "data": [self._card(n) for n in self.served]})
        elif path == "/version":
            response.send(200, {"version": self.version})
        elif path == "/load":
            response.send(200, {"server_load": self.running})
        else:
            response.send(200, b"", "")

    def _card(self, name: str) -> dict[str, Any]:
        created = int(self.clock())
        permission = {
            "id": "modelperm-sim", "object": "model_permission", "created": created,
            "allow_create_engine": False, "allow_sampling": True, "allow_logprobs": True,
            "allow_search_indices": False, "allow_view": True, "allow_fine_tuning": False,
            "organization": "*", "group": None, "is_blocking": False,
        }  # fmt: skip
        return {
            "id": name, "object": "model", "created": created, "owned_by": "vllm",
            "root": self.root, "parent": None, "max_model_len": self.max_model_len,
            "permission": [permission],
        }  # fmt: skip

    def _tokenize(self, request: Request, response: Response) -> None:
        prompt = answers.prompts_of(_json(request.body))[0]
        ids = answers.token_ids(prompt)
        strings = prompt.split() if _json(request.body).get("return_token_strs") else None
        response.send(200, {"count": len(ids), "max_model_len": self.max_model_len,
                            "tokens": ids, "token_strs": strings})  # fmt: skip

    async def _serve_completion(self, request: Request, response: Response) -> None:
        if self.remember:
            self.seen.append(Seen(request.path, request.headers, _json(request.body)))
        self.running += 1
        try:
            if not await self._misbehave(response):
                await Answering(self, request, response).run()
        except RefusedError as refused:
            response.send(refused.status, refused.body)
        except asyncio.CancelledError:
            self.aborted += 1
            self.counts.finished["abort"] += 1
            raise
        finally:
            self.running -= 1

    async def _misbehave(self, response: Response) -> bool:
        faults = self.faults
        if faults.hang:
            await asyncio.Event().wait()
        while faults.held:  # noqa: ASYNC110 - a plain switch has no event
            await asyncio.sleep(0.005)
        if faults.take("reset_times"):
            response.reset()
            return True
        if faults.take("status_times"):
            response.send(faults.status, error(faults.status, "simulated"))
            return True
        if faults.take("garbage_times"):
            response.send(200, b"<html>", "text/html")
            return True
        if faults.take("error_event_times"):
            response.start()
            await response.chunk(b'data: {"error":{"message":"simulated","code":500}}\n\n')
            await response.chunk(b"data: [DONE]\n\n")
            response.end()
            return True
        return False

    def metrics(self) -> str:
        """The exposition, with vLLM's names."""
        label = f'engine="0",model_name="{self.served[0]}"'
        held = sum(answers.prompt_tokens(prompt) for prompt in self.store.held.values())
        gauges = {
            "num_requests_running": self.running - self.batch.waiting,
            "num_requests_waiting": self.batch.waiting,
            "kv_cache_usage_perc": min(1.0, (self.kv_used + held) / self.kv_tokens),
        }
        more: list[str] = []
        if self.shared is not None and self.tier == PREFILLER:
            more = self.shared.metrics(label)
        return self.counts.text(label, gauges, more)


def _bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host


def _methods(path: str) -> tuple[str, ...]:
    if path == "/ping":
        return ("GET", "POST")
    return ("POST",) if path in _POST else ("GET",)


def _json(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
