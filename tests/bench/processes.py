"""The benchmark's processes: engines, proxies, load; and what the kernel says of them."""

import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tools.paths import BUILD, REPOSITORY, uv
from tools.stages import UserError

PEER: Final = BUILD / "bench" / "peer"
_START_SECONDS: Final = 60.0
_ENVIRONMENT: Final = {**os.environ, "PYTHONPATH": f"{REPOSITORY}/operator:{REPOSITORY}"}


@dataclass(frozen=True)
class Server:
    """A process that listens on loopback."""

    pid: int
    port: int

    def cpu(self) -> float:
        """CPU seconds of all its threads so far, in user and kernel mode (clock_getcpuclockid)."""
        return time.clock_gettime((~self.pid << 3) | 2)

    def memory(self) -> int:
        """Resident bytes."""
        pages = Path(f"/proc/{self.pid}/statm").read_text().split()[1]
        return int(pages) * os.sysconf("SC_PAGE_SIZE")


@dataclass(frozen=True)
class Engines:
    """The ports of the constant engines of each tier."""

    prefillers: tuple[int, ...]
    decoders: tuple[int, ...]


@contextmanager
def _process(arguments: Sequence[str], log: Path | None = None) -> Iterator[subprocess.Popen[str]]:
    with ExitStack() as stack:
        out = subprocess.PIPE if log is None else stack.enter_context(log.open("w"))
        process = subprocess.Popen(
            arguments,
            stdin=subprocess.PIPE, stdout=out, stderr=None if log is None else out, text=True,
            env=_ENVIRONMENT, cwd=REPOSITORY,
        )  # fmt: skip
        try:
            yield process
        finally:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()


def _line(process: subprocess.Popen[str]) -> str:
    line = process.stdout.readline() if process.stdout else ""
    if not line:
        raise UserError(f"a process of the benchmark ended with {process.wait()}")
    return line


@contextmanager
def engines(prefillers: int, decoders: int) -> Iterator[Engines]:
    """Constant engines."""
    with ExitStack() as stack:
        started = [
            stack.enter_context(_process((sys.executable, "-m", "tests.bench.constant")))
            for _ in range(prefillers + decoders)
        ]
        ports = [int(_line(process)) for process in started]
        yield Engines(tuple(ports[:prefillers]), tuple(ports[prefillers:]))


@contextmanager
def ours(folder: Path, found: Engines) -> Iterator[Server]:
    """This project's proxy, as the operator configures it by default."""
    config = folder / "config.json"
    config.write_text(json.dumps(_config()))
    backends = folder / "backends.json"
    backends.write_text(
        json.dumps(
            [
                {"name": f"{tier}-{i}", "tier": tier, "host": "127.0.0.1", "port": port,
                 "bootstrapPort": port}
                for tier, ports in (("prefiller", found.prefillers), ("decoder", found.decoders))
                for i, port in enumerate(ports)
            ]
        )
    )  # fmt: skip
    command = ("-m", "pd_proxy", "--config", str(config), "--backends", str(backends))
    with _process((sys.executable, *command)) as process:
        yield Server(process.pid, json.loads(_line(process))["port"])


def _config() -> dict[str, object]:
    """What the operator writes for an example, but on ports of the system's choice."""
    from pd_operator.api.deployment import parse
    from pd_operator.build.proxy_config import proxy_config
    from tests.kube import example

    manifest = example("tiny-cpu")
    manifest["metadata"] |= {"namespace": "bench", "uid": "bench"}
    written: dict[str, object] = json.loads(proxy_config(parse(manifest)))
    listen = {"host": "127.0.0.1", "port": 0}
    limits, queue = written["limits"], written["queue"]
    if not isinstance(limits, dict) or not isinstance(queue, dict):
        raise TypeError
    # The 10,000 streams; nothing else comes near these limits.
    return {
        **written,
        "listen": listen,
        "admin": listen,
        "limits": {**limits, "connections": 16384, "inFlight": 16384},
        "queue": {**queue, "perDecoder": 16384, "perPrefiller": 16384},
    }


@contextmanager
def peer(folder: Path, found: Engines, policy: str) -> Iterator[Server]:
    """vllm-router in its mode for MooncakeConnector; `PEER` is made from the lock first."""
    if not (PEER / "bin" / "vllm-router").exists():
        subprocess.run(
            [str(uv()), "sync", "--quiet", "--frozen", "--only-group", "bench"],
            check=True, cwd=REPOSITORY, env={**os.environ, "UV_PROJECT_ENVIRONMENT": str(PEER)},
        )  # fmt: skip
    port, metrics = _free_port(), _free_port()
    command = [
        str(PEER / "bin" / "vllm-router"), "--vllm-pd-disaggregation", "--kv-connector", "mooncake",
        "--policy", policy, "--port", str(port), "--prometheus-port", str(metrics),
        "--max-concurrent-requests", "16384", "--log-level", "warning",
    ]  # fmt: skip
    for one in found.prefillers:
        command += ["--prefill", f"http://127.0.0.1:{one}", str(one)]
    for one in found.decoders:
        command += ["--decode", f"http://127.0.0.1:{one}"]
    log = folder / f"{policy}.log"
    with _process(command, log) as process:
        end = time.monotonic() + _START_SECONDS
        while not _listens(port):
            if process.poll() is not None or time.monotonic() > end:
                raise UserError(f"vllm-router does not start:\n{log.read_text()[-2000:]}")
            time.sleep(0.1)
        yield Server(process.pid, port)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def load(kind: str, port: int, connections: int, seconds: float) -> Iterator[dict[str, float]]:
    """See tests.bench.load; held streams stay open within the context."""
    command = ("-m", "tests.bench.load", kind, str(port), str(connections), str(seconds))
    with _process((sys.executable, *command)) as process:
        figures: dict[str, float] = json.loads(_line(process))
        if figures["errors"] or not (figures["answers"] or kind == "held"):
            raise UserError(f"the load saw {figures['errors']:.0f} errors: {figures}")
        yield figures
