"""Start the engine once, as pods will.

That leaves its caches, and shows at the build whether it works.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

PORT = 18000
URL = f"http://127.0.0.1:{PORT}"
PATIENCE = 300
"""Seconds that the first start may take."""


def wait(process: "subprocess.Popen[bytes]") -> None:
    """Wait until the engine is healthy; TimeoutError or RuntimeError where it does not get so."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise RuntimeError(f"the engine ended with exit code {process.returncode}")
        try:
            with urllib.request.urlopen(f"{URL}/health", timeout=2):  # noqa: S310 - http
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.5)
    raise TimeoutError(f"the engine was not healthy within {PATIENCE} s")


def ask() -> None:
    """Ask for a few tokens; RuntimeError where the answer is not what was asked for."""
    request = urllib.request.Request(  # noqa: S310 - http
        f"{URL}/v1/chat/completions",
        json.dumps(
            {
                "model": "tiny",
                "messages": [{"role": "user", "content": "What is that?"}],
                "max_tokens": 4,
                "ignore_eos": True,
            }
        ).encode(),
        {"content-type": "application/json"},
    )
    with urllib.request.urlopen(request, timeout=120) as answer:  # noqa: S310 - http
        usage = json.load(answer)["usage"]
    if usage["completion_tokens"] != 4:
        raise RuntimeError(f"asked for 4 tokens, got {usage}")


def main(model: str) -> int:
    """Start, ask, stop; 0 when all of it went well."""
    command = [
        *("vllm", "serve", model, "--served-model-name", "tiny"),
        *("--host", "127.0.0.1", "--port", str(PORT), "--dtype", "float32", "--enforce-eager"),
        *("--max-model-len", "2048", "--max-num-seqs", "16", "--kv-cache-memory-bytes", "64M"),
        *("--distributed-executor-backend", "uni"),
    ]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(  # noqa: S603 - a fixed command
            command,
            stdout=log,
            stderr=subprocess.STDOUT,
            env={**os.environ, "VLLM_HOST_IP": "127.0.0.1"},
        )
        try:
            wait(process)
            ask()
        except Exception as error:
            log.seek(0)
            print(log.read().decode(errors="replace")[-8000:], file=sys.stderr)
            print(f"first start: {error}", file=sys.stderr)
            return 1
        finally:
            process.terminate()
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
