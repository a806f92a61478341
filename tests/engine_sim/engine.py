"""A simulated engine: a prefiller (kv_producer) or a decoder (kv_consumer)."""

import asyncio
import json
import uuid
from dataclasses import dataclass, field
from typing import Any, Final

from pd_shared import labels
from tests.engine_sim import answers
from tests.engine_sim.faults import Faults
from tests.engine_sim.kv import Fetcher, Store, TransferServer, UnknownEngineError, fetch_at
from tests.engine_sim.shared import SharedStore
from tests.engine_sim.wire import HttpServer, Request, Response

PREFILLER: Final = "prefiller"
DECODER: Final = "decoder"

_SOURCES: Final = ("local_compute", "local_cache_hit", "external_kv_transfer")
_COMPLETIONS: Final = ("/v1/completions", "/v1/chat/completions")


@dataclass
class Seen:
    """A request that came to an engine."""

    path: str
    headers: dict[str, str]
    body: dict[str, Any]


@dataclass
class Engine:
    """One engine process on loopback; times in seconds."""

    tier: str
    name: str = "engine"
    prefill_per_token: float = 0.0
    per_token: float = 0.0
    abort_seconds: float = 480.0
    max_model_len: int = 2048
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

    def __post_init__(self) -> None:
        self._http = HttpServer(self._serve)
        self._bootstrap = HttpServer(self._serve_bootstrap)
        self._transfers = TransferServer()
        self.store = Store(self.abort_seconds)
        self._fetcher = Fetcher(self.abort_seconds)
        self.sources = dict.fromkeys(_SOURCES, 0)
        self.generated = 0

    @property
    def http(self) -> HttpServer:
        return self._http

    @property
    def bootstrap(self) -> HttpServer:
        return self._bootstrap

    @property
    def port(self) -> int:
        return self._http.port

    @property
    def bootstrap_port(self) -> int:
        return self._bootstrap.port

    async def start(self) -> None:
        """A new process: a new engine id, no KV, counters at zero; the same ports."""
        self.store = Store(self.abort_seconds)
        self._fetcher = Fetcher(self.abort_seconds)
        self.sources = dict.fromkeys(_SOURCES, 0)
        self.generated = 0
        if self.tier == PREFILLER:
            await self._transfers.start(self.store)
            await self._bootstrap.start()
        await self._http.start()

    def kill(self) -> None:
        """SIGKILL."""
        self._http.stop()
        self._bootstrap.stop()
        self._transfers.stop()

    async def restart(self) -> None:
        """Killed, and started again at the same address."""
        self.kill()
        await self.start()

    async def _serve_bootstrap(self, request: Request, response: Response) -> None:
        if request.path != "/query":
            response.send(404, {})
        elif self.faults.bootstrap_down:
            response.send(503, {})
        else:
            address = f"tcp://127.0.0.1:{self._transfers.port}"
            response.send(200, {str(rank): self._rank(rank, address) for rank in range(self.ranks)})

    def _rank(self, rank: int, address: str) -> dict[str, Any]:
        suffix = f"_dp{rank}" if self.ranks > 1 else ""
        return {"engine_id": self.store.engine_id + suffix, "worker_addr": {"0": {"0": address}}}

    async def _serve(self, request: Request, response: Response) -> None:
        path = request.path.partition("?")[0]
        if path == "/metrics":
            response.send(200, self.metrics().encode(), "text/plain; version=0.0.4")
        elif path == "/sim/faults":
            for key, value in request.json().items():
                setattr(self.faults, key, value)
            response.send(200, {})
        elif path in _COMPLETIONS:
            await self._serve_completion(request, response)
        else:
            await self._serve_other(request, response, path)

    async def _serve_other(self, request: Request, response: Response, path: str) -> None:
        if path in ("/health", "/ping"):
            response.send(200, b"", "text/plain")
        elif path.startswith("/v1/models/"):
            response.send(200, {"object": "model", "id": path.removeprefix("/v1/models/")})
        elif path == "/v1/models":
            response.send(200, {"object": "list", "data": [{"id": answers.MODEL}]})
        elif request.method == "POST":
            self.seen.append(Seen(request.path, request.headers, _json(request.body)))
            response.send(200, {"path": request.path, "size": len(request.body)})
        else:
            response.send(404, {"detail": "Not Found"})

    async def _serve_completion(self, request: Request, response: Response) -> None:
        body = request.json()
        self.seen.append(Seen(request.path, request.headers, body))
        self.running += 1
        try:
            if not await self._misbehave(response):
                await self._complete(request, body, response)
        except asyncio.CancelledError:
            self.aborted += 1
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
            response.send(faults.status, answers.error(faults.status, "simulated"))
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

    async def _complete(self, request: Request, body: dict[str, Any], response: Response) -> None:
        prompt = answers.prompt_of(body)
        length = answers.prompt_tokens(prompt)
        if length + 1 > self.max_model_len:
            response.send(400, answers.error(400, f"the prompt has {length} tokens: too long"))
            return
        params = body.get("kv_transfer_params") or {}
        # A bare assert in vLLM's scheduler: the engine dies.
        if self.tier == PREFILLER and params.get("do_remote_prefill"):
            self.kill()
            return
        if self.tier == DECODER and params.get("do_remote_decode"):
            self.kill()
            return
        source = await self._prompt_source(params, prompt, length)
        transfer = params.get("transfer_id")
        first_stops = prompt.startswith("EOS") and not body.get("min_tokens")
        told = None
        if self.tier == PREFILLER and body.get("max_tokens") == 1 and not first_stops:
            if transfer:
                self.store.hold(transfer, prompt)
            elif self.connector == labels.NIXL and params.get("do_remote_decode"):
                told = self._hold_for_nixl(prompt)
        await self._generate(request, body, response, source, told)
        if self.tier == PREFILLER and self.shared is not None:
            self.shared.save(prompt, self.faults.lost_saves)

    def _hold_for_nixl(self, prompt: str) -> dict[str, Any] | None:
        """As NixlConnector's request_finished: where the decoder finds the blocks."""
        if self.faults.params_missing:
            return None
        request = uuid.uuid4().hex
        self.store.hold(request, prompt)
        return {
            "do_remote_prefill": True, "do_remote_decode": False, "remote_block_ids": [[1, 2]],
            "remote_engine_id": self.store.engine_id, "remote_request_id": request,
            "remote_host": "127.0.0.1", "remote_port": self._transfers.port, "tp_size": 1,
        }  # fmt: skip

    async def _prompt_source(self, params: dict[str, Any], prompt: str, length: int) -> str:
        """The prompt that the answer is made from: the fetched KV's, or the request's own."""
        wanted = ("remote_bootstrap_addr", "remote_engine_id", "transfer_id")
        if (
            self.tier == DECODER
            and params.get("do_remote_prefill")
            and all(map(params.get, wanted))
        ):
            try:
                await asyncio.sleep(self.faults.slow_kv)
                fetched = await self._fetcher.fetch(*(params[key] for key in wanted))
            except UnknownEngineError:
                fetched = None
            if fetched is not None:
                self.sources["external_kv_transfer"] += length
                return fetched
        if self.tier == DECODER and self.connector == labels.NIXL and params:
            fetched = await self._fetch_by_nixl(params)
            if fetched is not None:
                self.sources["external_kv_transfer"] += length
                return fetched
        loaded = 0
        if self.tier == DECODER and self.shared is not None:
            loaded = self.shared.load(prompt, length)
            self.sources["external_kv_transfer"] += loaded
        await asyncio.sleep(self.prefill_per_token * (length - loaded))
        self.sources["local_compute"] += length - loaded
        return prompt

    async def _fetch_by_nixl(self, params: dict[str, Any]) -> str | None:
        wanted = ("remote_engine_id", "remote_request_id", "remote_host", "remote_port")
        if not params.get("do_remote_prefill") or not all(map(params.get, wanted)):
            return None
        await asyncio.sleep(self.faults.slow_kv)
        return await fetch_at(
            params["remote_host"], params["remote_port"], params["remote_request_id"]
        )

    async def _generate(
        self,
        request: Request,
        body: dict[str, Any],
        response: Response,
        prompt: str,
        told: dict[str, Any] | None,
    ) -> None:
        count = answers.wanted(body)
        parts = answers.tokens(prompt, count)
        length = answers.prompt_tokens(answers.prompt_of(body))
        request_id = request.headers.get("x-request-id", "none")
        if body.get("stream"):
            await self._stream(answers.events(body, request_id, parts, length), response)
        else:
            if self.per_token:
                await asyncio.sleep(self.per_token * count)
            answer = answers.whole(body, request_id, "".join(parts), length, count)
            response.send(200, {**answer, "kv_transfer_params": told})
        self.generated += count

    async def _stream(self, events: list[bytes], response: Response) -> None:
        faults = self.faults
        response.start()
        for index, event in enumerate(events):
            if index == faults.die_after_tokens:
                if faults.cut_event:
                    await response.chunk(event[: len(event) // 2])
                    await asyncio.sleep(0)
                response.reset()
                return
            if index == faults.end_without_done_after:
                break
            if index == faults.stall_after_tokens:
                await asyncio.Event().wait()
            await response.chunk(event)
            await asyncio.sleep(self.per_token)
        if faults.lost_after_done:
            response.reset()
            return
        if faults.stall_after_done:
            await asyncio.Event().wait()
        response.end()

    def metrics(self) -> str:
        """The exposition, with vLLM's names."""
        label = f'engine="0",model_name="{answers.MODEL}"'
        lines = ["# TYPE vllm:prompt_tokens_by_source_total counter"]
        lines += [
            f'vllm:prompt_tokens_by_source_total{{{label},source="{source}"}} {float(value)}'
            for source, value in self.sources.items()
        ]
        total = sum(self.sources.values())
        lines += [
            f"vllm:prompt_tokens_total{{{label}}} {float(total)}",
            f"vllm:generation_tokens_total{{{label}}} {float(self.generated)}",
            f"vllm:num_requests_running{{{label}}} {float(self.running)}",
            f"vllm:num_requests_waiting{{{label}}} 0.0",
            f"vllm:kv_cache_usage_perc{{{label}}} 0.0",
        ]
        if self.shared is not None and self.tier == PREFILLER:
            lines += self.shared.metrics(label)
        return "\n".join(lines) + "\n"


def _json(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}
