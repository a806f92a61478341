"""`python -m tests.engine_sim serve MODEL …`: vLLM's command line, one simulated engine.

Prints its ports; 0 for one that the system chooses. Ends as vLLM does: at SIGTERM what runs may
end for --shutdown-timeout seconds. Faults: see tests/engine_sim/control.py.
"""

import asyncio
import contextlib
import json
import os
import signal
import sys
import time
from collections.abc import Sequence

from tests.engine_sim import DECODER, PREFILLER, Engine
from tests.engine_sim.options import OptionError, Options, parse

_CPU_BLOCK = 128


def engine(options: Options, version: str) -> Engine:
    """The engine that the options ask for."""
    return Engine(
        PREFILLER if options.produces else DECODER,
        connector=options.connector,
        abort_seconds=options.abort_seconds,
        max_model_len=options.max_model_len,
        ranks=options.ranks,
        served=options.served,
        root=options.model,
        version=version,
        host=options.host,
        advertised=options.advertised,
        http_port=options.port,
        fixed_bootstrap_port=options.bootstrap_port,
        side_channel_port=options.side_channel_port,
        pace=options.pace,
        max_num_seqs=options.max_num_seqs,
        kv_tokens=options.kv_tokens,
        block=_CPU_BLOCK,
        recompute=options.recompute,
        api_key=options.api_key,
        clock=time.time,
        remember=False,
    )


async def _run(options: Options) -> None:
    stopped = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stopped.set)
    if options.headless:
        # Ranks of another pod's engine: that one serves.
        await stopped.wait()
        return
    made = engine(options, os.environ.get("SIM_VERSION", "0.32.0+sim"))
    await made.start()
    ports = {"port": made.port}
    if options.produces:
        ports["bootstrapPort"] = made.bootstrap_port
    print(json.dumps(ports), flush=True)
    await stopped.wait()
    await made.drain(options.shutdown_seconds)


def main(arguments: Sequence[str]) -> None:
    try:
        options = parse(arguments, os.environ)
    except OptionError as error:
        sys.exit(f"engine_sim: {error}")
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_run(options))


if __name__ == "__main__":
    main(sys.argv[1:])
