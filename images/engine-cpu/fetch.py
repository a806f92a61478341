"""Install vLLM for the CPU and torch into a folder, with uv.

Used by the image's build, inside of it and outside; needs nothing but the standard library.
"""

import argparse
import os
import platform
import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
TORCH = "torch==2.13.0"
QUICK = {"UV_HTTP_TIMEOUT": "20", "UV_HTTP_RETRIES": "1"}
"""An index that cannot be reached must not cost minutes."""


def install(uv: str, target: Path, *what: str, environment: dict[str, str] | None = None) -> int:
    """Install what is asked for without dependencies: the lists are complete. uv's exit code."""
    command = [
        *(uv, "pip", "install", "--quiet", "--no-deps", "--only-binary", ":all:"),
        *("--python", sys.executable, "--python-version", "3.11"),
        *("--python-platform", f"{platform.machine()}-manylinux_2_36"),
        *("--target", str(target), *what),
    ]
    full = {**os.environ, **(environment or {})}
    return subprocess.run(command, env=full, check=False).returncode  # noqa: S603 - a fixed program


def main() -> int:
    """Install all; 0 when that worked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--uv", default="uv", help="the uv program")
    parser.add_argument("--target", type=Path, required=True, help="the folder to install into")
    parser.add_argument("--wheel", type=Path, help="a wheel of torch for the CPU")
    given = parser.parse_args()
    packages = ["-r", str(HERE / "requirements.txt")]
    if given.wheel:
        return install(given.uv, given.target, *packages, str(given.wheel))
    code = install(given.uv, given.target, *packages)
    if code != 0:
        return code
    code = install(given.uv, given.target, "--torch-backend", "cpu", TORCH, environment=QUICK)
    if code == 0:
        return 0
    print(
        "PyTorch's own index does not answer; taking the Python package index's torch", flush=True
    )
    return install(given.uv, given.target, "-r", str(HERE / "torch-index.txt"))


if __name__ == "__main__":
    sys.exit(main())
