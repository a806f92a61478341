"""`python -m pd_proxy --config FILE [--backends FILE]`."""

import argparse
import asyncio
import gc
import signal
import sys
from pathlib import Path

import uvloop

from pd_proxy.config import ConfigError, load
from pd_proxy.discovery.file import follow_file, read_file
from pd_proxy.log import log
from pd_proxy.proxy import Proxy


async def _run(config_file: Path, backends_file: Path | None) -> int:
    config = load(config_file)
    proxy = Proxy(config)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    if backends_file is not None:
        read_file(backends_file)  # what is wrong at the start is said at the start
        await proxy.start(follow_file(backends_file, proxy.backends))
        return await _until(stop, proxy)
    # The client for Kubernetes is large; without a cluster it is not needed.
    from pd_proxy.discovery import watch  # noqa: PLC0415

    api = await watch.connect(config)
    try:
        await proxy.start(watch.Follower(api, config, proxy.backends).run())
        return await _until(stop, proxy)
    finally:
        await api.close()


async def _until(stop: asyncio.Event, proxy: Proxy) -> int:
    # What was made until here lives as long as the process; only requests make garbage.
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 50)
    ends = [asyncio.create_task(event.wait()) for event in (stop, proxy.broken)]
    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    await proxy.drain()
    return 1 if proxy.broken.is_set() else 0


def main() -> int:
    """Run until SIGTERM; returns the exit status."""
    parser = argparse.ArgumentParser("pd_proxy", description="Prefill/decode proxy for vLLM.")
    parser.add_argument("--config", type=Path, required=True, help="the configuration file")
    parser.add_argument(
        "--backends", type=Path, help="a file with backends, in place of Kubernetes"
    )
    arguments = parser.parse_args()
    try:
        return uvloop.run(_run(arguments.config, arguments.backends))
    except ConfigError as error:
        log("error", "not started", error=str(error))
        print(f"pd_proxy: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
