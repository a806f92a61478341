"""A proxy between simulated engines, all in one loop."""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import Any

from pd_proxy import config
from pd_proxy.backends import READY, Pod
from pd_proxy.config import Config
from pd_proxy.proxy import Proxy
from tests.engine_sim import DECODER, PREFILLER, Engine
from tests.engine_sim.client import Reply, ask, get

SECONDS = {
    "connect": 1.0, "bootstrap": 1.0, "prefill": 20.0, "firstToken": 20.0, "betweenTokens": 20.0,
}  # fmt: skip
LIMITS = {"bodyBytes": 1 << 20, "headerBytes": 16384, "connections": 512, "inFlight": 512}
ROUTING = {
    "prefixAware": True, "sessionHeader": "x-session-id",
    "localPrefill": {"enabled": False, "maxTokens": 256},
}  # fmt: skip


def settings(
    seconds: dict[str, float] | None = None,
    limits: dict[str, int] | None = None,
    sections: dict[str, Any] | None = None,
    routing: dict[str, Any] | None = None,
) -> Config:
    """A configuration; ports are chosen by the system."""
    return config.parse(
        {
            "deployment": "tiny",
            "namespace": "ns",
            "deploymentUid": "uid",
            "servedNames": ["tiny"],
            "listen": {"host": "127.0.0.1", "port": 0},
            "admin": {"host": "127.0.0.1", "port": 0},
            "timeouts": {**SECONDS, **(seconds or {})},
            "limits": {**LIMITS, **(limits or {})},
            "routing": {**ROUTING, **(routing or {})},
            **(sections or {}),
        }
    )


def pod_of(engine: Engine, incarnation: str = "1", pairing: str = "") -> Pod:
    """What a source tells of a simulated engine."""
    return Pod(
        uid=engine.name, name=engine.name, tier=engine.tier, pairing=pairing, host="127.0.0.1",
        port=engine.port, bootstrap_port=engine.bootstrap_port,
        incarnation=incarnation, state=READY, connector=engine.connector,
    )  # fmt: skip


@dataclass
class Rig:
    """The proxy's table is changed by `update`, as a source would."""

    proxy: Proxy
    prefillers: list[Engine]
    decoders: list[Engine]
    more: list[Engine] = field(default_factory=list)
    """Those that came later."""

    @property
    def port(self) -> int:
        return self.proxy.port

    def pods(self) -> list[Pod]:
        return [backend.pod for backend in self.proxy.backends.all()]

    def update(self, engine: Engine, **change: Any) -> None:
        """Tell something new of one engine."""
        self.proxy.backends.update(
            replace(pod, **change) if pod.uid == engine.name else pod for pod in self.pods()
        )

    async def add(self, engine: Engine, pairing: str = "") -> Engine:
        """Start an engine, and tell that its pod is there."""
        await engine.start()
        self.more.append(engine)
        self.proxy.backends.update([*self.pods(), pod_of(engine, pairing=pairing)])
        return engine

    def remove(self, engine: Engine) -> None:
        """Tell that an engine's pod is no more."""
        self.proxy.backends.update(pod for pod in self.pods() if pod.uid != engine.name)

    async def complete(self, prompt: str, **more: Any) -> Reply:
        """One completion over a connection of its own."""
        return await ask(self.port, "/v1/completions", completion(prompt, **more))

    async def learned(self) -> None:
        """Wait until the engine ids of all prefillers are known."""
        for backend in self.proxy.backends.all():
            if backend.prefills:
                await backend.engines_known.wait()

    async def metric(self, name: str, **labels: str) -> float:
        """A sample of the admin port's /metrics; 0 where there is none."""
        text = (await get(self.proxy.admin_port, "/metrics")).body.decode()
        inner = ",".join(f'{key}="{value}"' for key, value in labels.items())
        sample = re.escape(f"{name}{{{inner}}}" if labels else name)
        found = re.search(rf"^{sample} (\S+)$", text, re.M)
        return float(found[1]) if found else 0.0


def completion(prompt: str, **more: Any) -> dict[str, Any]:
    """A completion's body."""
    return {"model": "tiny", "prompt": prompt, "max_tokens": 4, **more}


async def until(condition: Callable[[], object]) -> None:
    """Wait for a condition, whatever it takes; the test's own limit ends it."""
    while not condition():  # noqa: ASYNC110 - plain numbers have no event
        await asyncio.sleep(0.005)


async def _known(proxy: Proxy, pods: list[Pod]) -> None:
    proxy.backends.update(pods)


@asynccontextmanager
async def rig(
    prefillers: int = 1,
    decoders: int = 1,
    seconds: dict[str, float] | None = None,
    limits: dict[str, int] | None = None,
    sections: dict[str, Any] | None = None,
    check_seconds: float = 3600.0,
    secret_seconds: float = 2.0,
    routing: dict[str, Any] | None = None,
    **engine: Any,
) -> AsyncIterator[Rig]:
    """Engines and a proxy that knows them, ready."""
    first = [Engine(PREFILLER, f"prefiller-{i}", **engine) for i in range(prefillers)]
    second = [Engine(DECODER, f"decoder-{i}", **engine) for i in range(decoders)]
    for one in (*first, *second):
        await one.start()
    proxy = Proxy(
        settings(seconds, limits, sections, routing),
        drain_seconds=5,
        linger_seconds=0.01,
        poll_seconds=0.02,
        check_seconds=check_seconds,
        secret_seconds=secret_seconds,
    )
    await proxy.start(_known(proxy, [pod_of(one) for one in (*first, *second)]))
    made = Rig(proxy, first, second)
    await until(lambda: proxy.backends.known)
    await made.learned()
    try:
        yield made
    finally:
        await proxy.close()
        for one in (*first, *second, *made.more):
            one.kill()
        await asyncio.sleep(0)
