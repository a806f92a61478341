"""`python -m tests.engine_sim prefiller|decoder`: one engine as a process; prints its ports.

Faults by `POST /sim/faults` with fields of `Faults`.
"""

import argparse
import asyncio
import json

from pd_shared import labels
from tests.engine_sim import DECODER, PREFILLER, Engine


async def _run(engine: Engine) -> None:
    await engine.start()
    print(json.dumps({"port": engine.port, "bootstrapPort": engine.bootstrap_port}), flush=True)
    await asyncio.Event().wait()


def main() -> None:
    parser = argparse.ArgumentParser("engine_sim")
    parser.add_argument("tier", choices=(PREFILLER, DECODER))
    parser.add_argument("--connector", choices=labels.CONNECTORS, default=labels.MOONCAKE_CONNECTOR)
    parser.add_argument("--prefill-per-token", type=float, default=0.0, help="seconds")
    parser.add_argument("--per-token", type=float, default=0.0, help="seconds")
    parser.add_argument("--abort-seconds", type=float, default=480.0)
    arguments = parser.parse_args()
    engine = Engine(
        arguments.tier,
        connector=arguments.connector,
        prefill_per_token=arguments.prefill_per_token,
        per_token=arguments.per_token,
        abort_seconds=arguments.abort_seconds,
    )
    asyncio.run(_run(engine))


if __name__ == "__main__":
    main()
