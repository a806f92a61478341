"""The simulated engine keeps to what vLLM does: see tests/conformance."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import pytest

from tests.conformance.checks import CHECKS
from tests.conformance.pair import Pair
from tools.paths import REPOSITORY


@contextmanager
def served(role: str) -> Iterator[dict[str, int]]:
    transfer = {"kv_connector": "MooncakeConnector", "kv_role": role,
                "kv_load_failure_policy": "recompute"}  # fmt: skip
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "tests.engine_sim", "serve", "/models/tiny"),
            *("--served-model-name=tiny", "--host=127.0.0.1", "--port=0", "--max-model-len=2048"),
            f"--kv-transfer-config={json.dumps(transfer)}",
        ],
        stdout=subprocess.PIPE,
        cwd=REPOSITORY,
        env={
            **os.environ,
            "PYTHONPATH": f"{REPOSITORY}/operator:{REPOSITORY}",
            "VLLM_MOONCAKE_BOOTSTRAP_PORT": "0",
        },
    )
    with process:
        try:
            assert process.stdout is not None
            yield json.loads(process.stdout.readline())
        finally:
            process.kill()


@pytest.fixture(scope="module")
def simulated() -> Iterator[Pair]:
    with ExitStack() as stack:
        prefiller = stack.enter_context(served("kv_producer"))
        decoder = stack.enter_context(served("kv_consumer"))
        bootstrap = f"http://127.0.0.1:{prefiller['bootstrapPort']}"
        yield Pair(
            prefiller=f"http://127.0.0.1:{prefiller['port']}",
            decoder=f"http://127.0.0.1:{decoder['port']}",
            bootstrap=bootstrap,
            bootstrap_for_decoder=bootstrap,
            model="tiny",
            max_model_len=2048,
        )


@pytest.mark.parametrize("name", CHECKS)
def test_conformance(simulated: Pair, name: str) -> None:
    CHECKS[name](simulated)
