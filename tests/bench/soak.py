"""A proxy under churning engines, and with 10,000 slow streams: `make bench-soak`.

Engines, proxy and load are processes of their own. Engines are killed and started again at the
same address all the time, and the backends' file tells of it only later.
"""

import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tests.bench.churn import more_files
from tools.paths import BUILD, REPOSITORY
from tools.stages import UserError, fail, say

WHO: Final = "bench-soak"
REQUESTS: Final = int(os.environ.get("SOAK_REQUESTS", "200000"))
_FILES: Final = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
STREAMS: Final = min(int(os.environ.get("SOAK_STREAMS", "10000")), (_FILES - 300) // 2)
"""Each takes two of the proxy's open files, so fewer where the system allows too few."""
STREAM_SECONDS: Final = float(os.environ.get("SOAK_STREAM_SECONDS", "120"))
CONNECTIONS: Final = 48
CHURN_SECONDS: Final = 1.5
RSS_GROWTH: Final = 8192 * max(1.0, REQUESTS / 200_000)
"""KiB that the proxy may gain after a fifth of the requests: 42 bytes for each."""
FDS_GROWTH: Final = 32


def start(*arguments: str) -> subprocess.Popen[str]:
    """A process of the bench."""
    environment = {**os.environ, "PYTHONPATH": f"{REPOSITORY}/operator:{REPOSITORY}"}
    return subprocess.Popen(
        [sys.executable, "-m", *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        env=environment, cwd=REPOSITORY,
    )  # fmt: skip


def stop(process: subprocess.Popen[str]) -> None:
    process.kill()
    process.wait()
    if process.stdout is not None:
        process.stdout.close()


def line(process: subprocess.Popen[str]) -> Any:
    """The next line that is JSON."""
    text = process.stdout.readline() if process.stdout else ""
    if not text:
        raise UserError(f"a process of the benchmark ended with {process.wait()}")
    return json.loads(text)


class Engines:
    """Prefillers and decoders that die and come back."""

    def __init__(self, backends: Path, each: int) -> None:
        self._backends = backends
        self._tiers = ["prefiller"] * each + ["decoder"] * each
        self._processes = [start("tests.bench.churn", "engine", "0") for _ in self._tiers]
        self._ports = [line(process) for process in self._processes]
        self._incarnations = [1] * len(self._tiers)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._churn)
        self.killed = 0
        self._tell()

    def _tell(self) -> None:
        rows = [
            {"name": f"{tier}-{index}", "tier": tier, "host": "127.0.0.1", "port": port,
             "bootstrapPort": port, "incarnation": str(incarnation)}
            for index, (tier, port, incarnation) in enumerate(
                zip(self._tiers, self._ports, self._incarnations, strict=True)
            )
        ]  # fmt: skip
        partial = self._backends.with_suffix(".new")
        partial.write_text(json.dumps(rows))
        partial.replace(self._backends)

    def begin(self) -> None:
        self._thread.start()

    def _churn(self) -> None:
        dice = random.Random(1)
        while not self._stopped.wait(CHURN_SECONDS):
            index = dice.randrange(len(self._tiers))
            stop(self._processes[index])
            self.killed += 1
            self._processes[index] = start("tests.bench.churn", "engine", str(self._ports[index]))
            line(self._processes[index])
            if dice.random() < 0.5:  # else only its bootstrap server and broken connections tell
                self._incarnations[index] += 1
                self._tell()

    def end(self) -> None:
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join()

    def close(self) -> None:
        self.end()
        for process in self._processes:
            stop(process)


def _swallow(process: subprocess.Popen[str]) -> None:
    if process.stdout is not None:
        for _ in process.stdout:
            pass


@contextmanager
def proxied(folder: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A proxy process, and its port."""
    config = folder / "config.json"
    config.write_text(
        json.dumps(
            {
                "deployment": "soak", "namespace": "soak", "deploymentUid": "soak",
                "servedNames": ["tiny"], "connector": "Mooncake",
                "listen": {"host": "127.0.0.1", "port": 0},
                "admin": {"host": "127.0.0.1", "port": 0},
                "timeouts": {
                    "connect": 2.0, "bootstrap": 5.0, "prefill": 60.0, "firstToken": 120.0,
                    "betweenTokens": 60.0,
                },
                "limits": {
                    "bodyBytes": 1 << 20, "headerBytes": 65536, "connections": STREAMS + 1000,
                    "inFlight": STREAMS + 1000,
                },
            }
        )
    )  # fmt: skip
    process = start(
        "pd_proxy", "--config", str(config), "--backends", str(folder / "backends.json")
    )
    try:
        port = int(line(process)["port"])
        # Its log is not wanted, but has to go somewhere.
        threading.Thread(
            target=lambda: process.stdout and process.stdout.read(), daemon=True
        ).start()
        yield process, port
    finally:
        process.kill()
        process.wait()


def rss(pid: int) -> int:
    """Resident memory in KiB."""
    for row in Path(f"/proc/{pid}/status").read_text().splitlines():
        if row.startswith("VmRSS:"):
            return int(row.split()[1])
    raise UserError("the proxy has ended")


def fds(pid: int) -> int:
    """Open files."""
    return len(list(Path(f"/proc/{pid}/fd").iterdir()))


def churned() -> dict[str, Any]:
    """The requests of the soak."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        engines = Engines(folder / "backends.json", 3)
        try:
            with proxied(folder) as (proxy, port):
                engines.begin()
                began = time.monotonic()
                load = start(
                    "tests.bench.churn", "load", str(port), str(REQUESTS), str(CONNECTIONS)
                )
                samples = []
                try:
                    while "done" in (told := line(load)):
                        samples.append({**told, "rss": rss(proxy.pid), "fds": fds(proxy.pid)})
                        say(WHO, f"{samples[-1]}, {engines.killed} engines killed")
                finally:
                    stop(load)
                took = time.monotonic() - began
                engines.end()
                time.sleep(2)
                samples.append({"done": REQUESTS, "rss": rss(proxy.pid), "fds": fds(proxy.pid)})
        finally:
            engines.close()
    return {"requests": REQUESTS, "seconds": took, "killed": engines.killed, **told,
            "samples": samples}  # fmt: skip


def streamed() -> dict[str, Any]:
    """The slow streams."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        engines = Engines(folder / "backends.json", 2)
        try:
            with proxied(folder) as (proxy, port):
                warm = start("tests.bench.churn", "load", str(port), "200", "8")
                while "done" in line(warm):
                    pass
                stop(warm)
                before = rss(proxy.pid)
                load = start(
                    "tests.bench.churn", "streams", str(port), str(STREAMS), str(STREAM_SECONDS)
                )
                try:
                    opened = line(load)["opened"]
                    time.sleep(3)
                    during, files = rss(proxy.pid), fds(proxy.pid)
                    told = line(load)
                finally:
                    stop(load)
        finally:
            engines.close()
    return {"streams": STREAMS, "seconds_to_open": opened, "rss_before": before,
            "rss_during": during, "fds_during": files, **told}  # fmt: skip


def faults(churn: dict[str, Any], slow: dict[str, Any]) -> list[str]:
    """What is not as it should be."""
    found = []
    for what, figures in (("requests", churn), ("streams", slow)):
        if figures["lost"]:
            found.append(f"{what} lost: {figures['lost']}")
    early, *_, last = churn["samples"][len(churn["samples"]) // 5 :]
    if last["rss"] > early["rss"] + RSS_GROWTH:
        found.append(f"memory grew from {early['rss']} to {last['rss']} KiB")
    if last["fds"] > early["fds"] + FDS_GROWTH:
        found.append(f"open files grew from {early['fds']} to {last['fds']}")
    if slow["cut"] or slow["right"] != slow["streams"]:
        found.append(f"of {slow['streams']} streams {slow['right']} were right")
    return found


def main() -> int:
    """Measure, print, write; 1 where something was lost or grew."""
    more_files()
    try:
        churn = churned()
        slow = streamed()
    except UserError as error:
        return fail(WHO, error)
    wrong = faults(churn, slow)
    target = BUILD / "bench" / "soak.json"
    target.parent.mkdir(parents=True, exist_ok=True)
    result = {"churn": churn, "streams": slow, "wrong": wrong}
    target.write_text(json.dumps(result, indent=2) + "\n")
    say(
        WHO,
        f"{churn['right']} of {churn['requests']} right, {churn['cut']} streams cut by a kill;"
        f" {churn['killed']} engines killed in {churn['seconds']:.0f} s",
    )
    grown = (slow["rss_during"] - slow["rss_before"]) / 1024
    say(WHO, f"{slow['right']} of {slow['streams']} slow streams right; {grown:.0f} MiB for them")
    for text in wrong:
        say(WHO, text)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
