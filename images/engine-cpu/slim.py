"""Remove from a folder of packages what an engine never reads, and symbols from big libraries."""

import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

UNUSED = (
    "bin",
    "include",
    "mooncake/transfer_engine_bench",
    "nixl_cu12.scripts",
    "nixl_ep",
    "nixl_ep_cu12",
    "pkgconfig",
    "torch/include",
    "torch/share",
    "torch/test",
    "triton",
)
"""Programs for developers, headers and their like."""

TESTS = ("mpmath", "networkx", "sympy", "torchgen")
"""Packages that carry their tests."""

BIG = 28 << 20
"""Bytes from which on a library is stripped; some of the smaller ones do not survive it."""


def remove(root: Path) -> None:
    """Remove the unused parts."""
    doomed = [root / path for path in UNUSED]
    doomed += [path for path in (root / "torch/bin").glob("*") if path.name != "torch_shm_manager"]
    doomed += [path for name in TESTS for path in (root / name).rglob("tests")]
    doomed += [path for suffix in ("pyi", "pyx", "pxd", "a") for path in root.rglob(f"*.{suffix}")]
    for path in doomed:
        if path.is_dir():
            shutil.rmtree(path)
        else:
            path.unlink(missing_ok=True)


def strip(library: Path) -> None:
    """Strip one library; one that cannot be stripped stays as it is."""
    # Into a new file: uv may have linked the old one to its cache.
    slim = library.with_name(f"{library.name}.slim")
    done = subprocess.run(  # noqa: S603 - a fixed program
        ["strip", "--strip-unneeded", "-o", str(slim), str(library)],  # noqa: S607
        capture_output=True,
        check=False,
    )
    if done.returncode == 0:
        slim.chmod(library.stat().st_mode)
        slim.replace(library)
    else:
        slim.unlink(missing_ok=True)


def main(root: Path) -> None:
    """Make the packages below `root` slim."""
    remove(root)
    if shutil.which("strip") is None:
        return
    libraries = [
        path
        for path in root.rglob("*.so*")
        if path.is_file() and not path.is_symlink() and path.stat().st_size > BIG
    ]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        list(pool.map(strip, libraries))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
