"""One completion on a simulated engine: where its prompt's KV comes from, and its answer."""

from __future__ import annotations

import asyncio
import uuid
from typing import TYPE_CHECKING, Any, Final

from pd_shared import labels
from tests.engine_sim import answers, invalid, shapes
from tests.engine_sim.answers import Choice
from tests.engine_sim.kv import UnknownEngineError, fetch_at
from tests.engine_sim.pace import now

if TYPE_CHECKING:
    from tests.engine_sim.engine import Engine
    from tests.engine_sim.wire import Request, Response

_CHAT: Final = "/v1/chat/completions"
_MOONCAKE: Final = ("remote_bootstrap_addr", "remote_engine_id", "transfer_id")
_NIXL: Final = ("remote_engine_id", "remote_request_id", "remote_host", "remote_port")


class Answering:
    """`run` answers; RefusedError where vLLM would not take the request."""

    def __init__(self, engine: Engine, request: Request, response: Response) -> None:
        self._engine = engine
        self._response = response
        self._produces = engine.tier == labels.PREFILLER
        self._request_id = request.headers.get("x-request-id") or uuid.uuid4().hex
        self._raw = request.body
        self._media_type = request.headers.get("content-type", "")
        self._chat = request.path.partition("?")[0] == _CHAT
        self._arrived = self._scheduled = self._first = self._last = now()

    async def run(self) -> None:
        engine = self._engine
        body = invalid.read(self._raw, self._media_type)
        params: dict[str, Any] = body.get("kv_transfer_params") or {}
        try:
            invalid.check(body, self._chat, engine.served)
            prompts = answers.prompts_of(body)
            lengths = [answers.prompt_tokens(prompt) for prompt in prompts]
            for length in lengths:
                invalid.check_length(length, engine.max_model_len)
        except invalid.RefusedError:
            engine.transfers.free(engine.fetcher, params)
            raise
        # A bare assert in vLLM's scheduler: the engine dies.
        wrong = "do_remote_prefill" if self._produces else "do_remote_decode"
        if engine.connector != labels.COLOCATED and params.get(wrong):
            engine.kill()
            return
        choices = answers.choices(body, prompts, engine.max_model_len - max(lengths))
        held = sum(lengths) + sum(len(choice.tokens) for choice in choices)
        async with engine.batch.place():
            self._scheduled = now()
            engine.kv_used += held
            try:
                await self._in_batch(body, params, prompts, choices)
            finally:
                engine.kv_used -= held

    async def _in_batch(
        self,
        body: dict[str, Any],
        params: dict[str, Any],
        prompts: list[str],
        choices: list[Choice],
    ) -> None:
        engine = self._engine
        if engine.draining:
            choices = [Choice(c.index, [], "abort", c.echo) for c in choices]
            await self._answer(body, choices, prompts, None)
            return
        sources = []
        for prompt in prompts:
            source = await self._source(params, prompt)
            if source is None:
                await self._failed(body)
                return
            sources.append(source)
        if sources != prompts:
            # Another prompt's KV: the answer is its answer.
            choices = answers.choices(body, sources, max(len(c.tokens) for c in choices))
        await self._answer(body, choices, prompts, self._hold(body, params, prompts[0]))
        if self._produces and engine.shared is not None:
            for prompt in prompts:
                engine.shared.save(prompt, engine.faults.lost_saves)

    def _hold(self, body: dict[str, Any], params: dict[str, Any], prompt: str) -> Any:
        """A prefiller keeps the KV of what ended at its length; what Nixl tells of it."""
        engine = self._engine
        stops = prompt.startswith("EOS") and not body.get("min_tokens")
        if not self._produces or answers.asked(body) != 1 or stops:
            return None
        if params.get("transfer_id") and params.get("do_remote_decode"):
            engine.store.hold(params["transfer_id"], prompt)
        elif engine.connector == labels.NIXL and params.get("do_remote_decode"):
            if engine.faults.params_missing:
                return None
            request = (
                f"{'chatcmpl' if self._chat else 'cmpl'}-{self._request_id}-{uuid.uuid4().hex}"
            )
            engine.store.hold(request, prompt)
            return {
                "do_remote_prefill": True, "do_remote_decode": False,
                "remote_block_ids": [[1, 2]], "remote_engine_id": engine.store.engine_id,
                "remote_request_id": request, "remote_host": engine.advertised,
                "remote_port": engine.transfers.port, "tp_size": 1, "dcp_size": 1, "pp_size": 1,
                "remote_num_tokens": answers.prompt_tokens(prompt),
                "remote_blocks_expiry_time": None, "transfer_mode": "pull",
            }  # fmt: skip
        return None

    async def _source(self, params: dict[str, Any], prompt: str) -> str | None:
        """The prompt that the answer is made from: the fetched KV's, or the request's own.

        None where the KV could not be loaded and that fails the request.
        """
        engine = self._engine
        length = answers.prompt_tokens(prompt)
        hit = engine.prefixes.hit(prompt)
        engine.counts.sources["local_cache_hit"] += hit
        if not self._produces and engine.connector != labels.COLOCATED:
            asked, fetched = await self._fetch(params)
            if fetched is not None:
                engine.counts.sources["external_kv_transfer"] += length - hit
                engine.prefixes.add(prompt)
                return fetched
            if asked and not engine.recompute:
                return None
        loaded = hit
        if not self._produces and engine.shared is not None:
            loaded = max(hit, engine.shared.load(prompt, length))
            engine.counts.sources["external_kv_transfer"] += loaded - hit
        await engine.batch.prefill(length - loaded)
        engine.counts.sources["local_compute"] += length - loaded
        engine.prefixes.add(prompt)
        return prompt

    async def _fetch(self, params: dict[str, Any]) -> tuple[bool, str | None]:
        """Whether a transfer was asked for, and the prompt whose KV came."""
        engine = self._engine
        if not params.get("do_remote_prefill"):
            return False, None
        if engine.connector == labels.NIXL:
            if not all(map(params.get, _NIXL)):
                return False, None
            await asyncio.sleep(engine.faults.slow_kv)
            place = params["remote_host"], params["remote_port"], params["remote_request_id"]
            return True, await fetch_at(*place)
        if not all(map(params.get, _MOONCAKE)):
            return False, None
        try:
            await asyncio.sleep(engine.faults.slow_kv)
            return True, await engine.fetcher.fetch(*(params[key] for key in _MOONCAKE))
        except UnknownEngineError:
            return True, None

    async def _failed(self, body: dict[str, Any]) -> None:
        """kv_load_failure_policy "fail"."""
        self._engine.counts.finished["error"] += 1
        said = shapes.error(500, "Internal server error")
        if not body.get("stream"):
            self._response.send(500, said)
            return
        self._response.start()
        await self._response.chunk(b"data: %b\n\n" % shapes.dumps(said))
        await self._response.chunk(shapes.DONE)
        self._response.end()

    async def _answer(
        self, body: dict[str, Any], choices: list[Choice], prompts: list[str], told: Any
    ) -> None:
        engine = self._engine
        to = shapes.Envelope(
            body, self._request_id, engine.served[0], int(engine.clock()), f"vllm-{engine.version}"
        )
        prompt = sum(answers.prompt_tokens(one) for one in prompts)
        self._first = self._last = now()
        if body.get("stream"):
            steps = max((len(choice.tokens) for choice in choices), default=0)
            await self._stream(shapes.events(to, choices, prompt), steps)
        else:
            slow = engine.pace is not None and engine.pace.decode(1) > 0
            for number in range(max((len(choice.tokens) for choice in choices), default=0)):
                if slow:
                    await engine.batch.step()
                self._token(number)
            self._response.send(200, shapes.whole(to, choices, prompt, told))
        self._count(choices, prompt, answers.asked(body))

    def _token(self, number: int) -> None:
        """A step's tokens are there; the first one came with the prefill."""
        at = now()
        if number:
            self._engine.counts.observe("inter_token_latency_seconds", at - self._last)
        self._last = at

    async def _stream(self, events: list[bytes], steps: int) -> None:
        engine, response = self._engine, self._response
        faults = engine.faults
        response.start()
        for index, event in enumerate([*events, shapes.DONE]):
            if index == faults.die_after_tokens:
                if faults.cut_event:
                    await response.chunk(event[: len(event) // 2])
                    await asyncio.sleep(0)
                response.reset()
                return
            if index == faults.end_without_done_after:
                response.end()
                return
            if index == faults.stall_after_tokens:
                await asyncio.Event().wait()
            await response.chunk(event)
            if index < steps:
                await engine.batch.step()
                self._token(index)
        if faults.lost_after_done:
            response.reset()
            return
        if faults.stall_after_done:
            await asyncio.Event().wait()
        response.end()

    def _count(self, choices: list[Choice], prompt: int, most: int | None) -> None:
        counts = self._engine.counts
        end = now()
        generated = sum(len(choice.tokens) for choice in choices)
        counts.generated += generated
        for choice in choices:
            counts.finished[choice.finish] += 1
        for name, value in {
            "time_to_first_token_seconds": self._first - self._arrived,
            "e2e_request_latency_seconds": end - self._arrived,
            "request_queue_time_seconds": self._scheduled - self._arrived,
            "request_prefill_time_seconds": self._first - self._scheduled,
            "request_decode_time_seconds": end - self._first,
            "request_inference_time_seconds": end - self._scheduled,
            "request_time_per_output_token_seconds": (end - self._first) / max(1, generated - 1)
            if generated > 1
            else 0.0,
            "request_prompt_tokens": prompt,
            "request_generation_tokens": generated,
            "request_params_max_tokens": most or generated,
        }.items():
            counts.observe(name, value)
