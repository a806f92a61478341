"""KV transfers of the simulation: what a prefiller holds, and how a decoder fetches it."""

import asyncio
import json
import uuid
from dataclasses import dataclass, field
from typing import Any, Final

_LINE: Final = 2**26
_UNREACHABLE_SECONDS: Final = 5.1
"""What vLLM's attempts at a bootstrap server that is not there take."""


@dataclass
class Store:
    """A prefiller process's KV. A new process has a new one."""

    abort_seconds: float
    engine_id: str = field(default_factory=lambda: uuid.uuid4().hex)
    held: dict[str, str] = field(default_factory=dict)
    """Prompts by transfer id."""
    expired: int = 0
    fetched: int = 0
    _arrived: dict[str, asyncio.Event] = field(default_factory=dict)
    """Of transfers that a decoder waits for."""
    _timers: dict[str, asyncio.TimerHandle] = field(default_factory=dict)

    def hold(self, transfer: str, prompt: str) -> None:
        """Keep the KV of a prompt until it is fetched, or for the abort timeout."""
        self.held[transfer] = prompt
        if transfer in self._arrived:
            self._arrived[transfer].set()
        later = asyncio.get_running_loop().call_later(self.abort_seconds, self._expire, transfer)
        self._timers[transfer] = later

    def forget(self) -> None:
        """Lose all KV."""
        self.held.clear()

    def _expire(self, transfer: str) -> None:
        del self._timers[transfer]
        if self.held.pop(transfer, None) is not None:
            self.expired += 1

    async def fetch(self, transfer: str) -> str | None:
        """The prompt whose KV this is, once it is there; None after the abort timeout."""
        if transfer not in self._timers:
            arrived = self._arrived.setdefault(transfer, asyncio.Event())
            try:
                async with asyncio.timeout(self.abort_seconds):
                    await arrived.wait()
            except TimeoutError:
                return None
            finally:
                self._arrived.pop(transfer, None)
        timer = self._timers.pop(transfer, None)
        if timer is not None:
            timer.cancel()
        self.fetched += 1
        return self.held.pop(transfer, None)


class TransferServer:
    """Stands for the prefiller's side channel: a line with a transfer id, a line with the KV."""

    def __init__(self, host: str = "127.0.0.1", port: int = 0) -> None:
        self.store: Store | None = None
        self.port = port
        self._host = host
        self._fixed = port
        self._server: asyncio.Server | None = None
        self._writers: set[asyncio.StreamWriter] = set()
        self._freeing: set[asyncio.Task[object]] = set()

    async def start(self, store: Store) -> None:
        self.store = store
        # A new process has a new port, unless it is told one.
        self._server = await asyncio.start_server(
            self._serve, self._host, self._fixed, limit=_LINE, reuse_address=True
        )
        self.port = self._server.sockets[0].getsockname()[1]

    def stop(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        for writer in list(self._writers):
            writer.transport.abort()
        for task in list(self._freeing):
            task.cancel()
        self.store = None

    def free(self, fetcher: "Fetcher", params: dict[str, Any]) -> None:
        """What a decoder does that refuses a request: its prefiller need not keep the KV."""
        keys = ("remote_bootstrap_addr", "remote_engine_id", "transfer_id")
        if params.get("do_remote_prefill") and all(map(params.get, keys)):
            task = asyncio.create_task(_freed(fetcher, *(params[key] for key in keys)))
            self._freeing.add(task)
            task.add_done_callback(self._freeing.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            transfer = (await reader.readline()).decode().strip()
            store = self.store
            if store is not None:
                prompt = await store.fetch(transfer)
                writer.write(json.dumps({"prompt": prompt}).encode() + b"\n")
                await writer.drain()
        except OSError:
            pass
        finally:
            self._writers.discard(writer)
            writer.close()


async def _freed(fetcher: "Fetcher", bootstrap: str, engine_id: str, transfer: str) -> object:
    try:
        return await fetcher.fetch(bootstrap, engine_id, transfer)
    except UnknownEngineError:
        return None


class UnknownEngineError(Exception):
    """The bootstrap server does not know the engine id."""


class Fetcher:
    """A decoder's side: knows the peers that it has met, as MooncakeConnector does."""

    def __init__(self, abort_seconds: float) -> None:
        self._wait = abort_seconds * 1.125  # 480 s and 60 s more, in proportion
        self._peers: dict[str, str] = {}

    async def fetch(self, bootstrap: str, engine_id: str, transfer: str) -> str | None:
        """The prompt of the fetched KV; None where there is none.

        A peer that is known and dead blocks until the timeout.
        """
        if engine_id not in self._peers:
            self._peers[engine_id] = await _query(bootstrap, engine_id)
        address = self._peers[engine_id].removeprefix("tcp://")
        host, _, port = address.rpartition(":")
        host = host.strip("[]")
        began = asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout(self._wait):
                reader, writer = await asyncio.open_connection(host, int(port), limit=_LINE)
                try:
                    writer.write(transfer.encode() + b"\n")
                    line = await reader.readline()
                finally:
                    writer.close()
                if line:
                    prompt: str | None = json.loads(line)["prompt"]
                    return prompt
        except TimeoutError:
            return None
        except OSError:
            pass
        # ZMQ reconnects for ever: the request waits for the whole timeout.
        await asyncio.sleep(self._wait - (asyncio.get_running_loop().time() - began))
        return None


async def fetch_at(host: str, port: int, request: str) -> str | None:
    """What a NIXL decoder does: blocks at a known address; None where they are not, or no more."""
    try:
        reader, writer = await asyncio.open_connection(host, port, limit=_LINE)
        try:
            writer.write(request.encode() + b"\n")
            line = await reader.readline()
        finally:
            writer.close()
    except OSError:
        return None
    prompt: str | None = json.loads(line)["prompt"] if line else None
    return prompt


async def _query(bootstrap: str, engine_id: str) -> str:
    host, _, port = bootstrap.removeprefix("http://").rpartition(":")
    try:
        reader, writer = await asyncio.open_connection(host.strip("[]"), int(port))
        try:
            writer.write(b"GET /query HTTP/1.1\r\nhost: x\r\n\r\n")
            head = await reader.readuntil(b"\r\n\r\n")
            length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
            body = json.loads(await reader.readexactly(length))
        finally:
            writer.close()
    except (OSError, EOFError) as error:
        await asyncio.sleep(_UNREACHABLE_SECONDS)
        raise UnknownEngineError(engine_id) from error
    for entry in body.values() if isinstance(body, dict) else ():
        if isinstance(entry, dict) and entry.get("engine_id") == engine_id:
            address: str = entry["worker_addr"]["0"]["0"]
            return address
    raise UnknownEngineError(engine_id)
