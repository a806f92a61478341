"""Python packages for an image, resolved outside of it: wheels for its Python and its platform."""

import hashlib
import os
import platform
import shutil
import sys
from pathlib import Path
from typing import Final

from tools.images.builder import run
from tools.paths import REPOSITORY, cache, uv
from tools.stages import UserError

VERSION: Final = "3.11"
TORCH: Final = "2.13.0"
_KEPT: Final = 2
"""Folders of installed packages of one image that stay in the cache."""
_WHEEL: Final = f"torch-{TORCH}+cpu-cp311-cp311-*_{{machine}}.whl"


def options() -> list[str]:
    """uv's options that choose wheels for the images rather than for this machine's Python."""
    return [
        "--python-version",
        VERSION,
        "--python-platform",
        f"{platform.machine()}-manylinux_2_36",
    ]


def install(requirements: Path, target: Path) -> None:
    """Lay a complete list of packages into a folder, hashes checked where the list has them.

    Kept with its bytecode in the cache, so that a change of the project's own code alone costs
    no installation. Raises UserError where the index cannot be reached or lacks what is asked for.
    """
    kept = cache() / "images" / f"python-{requirements.parent.name}-{_content(requirements)}"
    if kept.is_dir():
        os.utime(kept)
    else:
        partial = kept.with_name(f"work-{kept.name}")
        shutil.rmtree(partial, ignore_errors=True)
        _install(requirements, partial)
        partial.replace(kept)
        _prune(requirements.parent.name)
    shutil.copytree(kept, target, copy_function=os.link, symlinks=True)


def _install(requirements: Path, target: Path) -> None:
    run(
        [
            *(str(uv()), "pip", "install", "--quiet", "--no-deps", "--only-binary", ":all:"),
            *("--python", sys.executable, *options(), "--target", str(target)),
            *("-r", str(requirements)),
        ],
        f"installing {requirements.relative_to(requirements.parents[2])} "
        "(is the Python package index reachable?)",
    )
    if f"{sys.version_info.major}.{sys.version_info.minor}" == VERSION:  # else the image does it
        where = ["-s", str(target), "-p", "/opt/python", str(target)]
        run([sys.executable, "-m", "compileall", "-qq", "-j", "0", *where], "making bytecode")


def _content(requirements: Path) -> str:
    facts = [requirements.read_text(encoding="utf-8"), *options(), sys.version]
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:12]


def _prune(name: str) -> None:
    found = (cache() / "images").glob(f"python-{name}-{'?' * 12}")
    for old in sorted(found, key=lambda each: each.stat().st_mtime, reverse=True)[_KEPT:]:
        shutil.rmtree(old, ignore_errors=True)


def torch_wheel() -> Path | None:
    """A wheel of torch for the CPU on this machine: in WHEELS, else in ../shared/wheels.

    Raises UserError where WHEELS is set and holds none.
    """
    pattern = _WHEEL.format(machine=platform.machine())
    chosen = os.environ.get("WHEELS")
    folder = Path(chosen) if chosen else REPOSITORY.parent / "shared" / "wheels"
    found = sorted(folder.glob(pattern))
    if chosen and not found:
        raise UserError(f"WHEELS={chosen} holds no {pattern}; unset it to take torch from an index")
    return found[-1] if found else None


def torch_fact() -> str:
    """What an image's tag must know of torch; the size of a wheel stands for its content."""
    wheel = torch_wheel()
    return f"{wheel.name} {wheel.stat().st_size}" if wheel else f"torch {TORCH} from an index"


def install_engine(context: Path, target: Path) -> None:
    """Install vLLM for the CPU and torch by the script that the Dockerfile uses as well."""
    folder = context / "images" / "engine-cpu"
    wheel = torch_wheel()
    command = [sys.executable, str(folder / "fetch.py"), "--uv", str(uv()), "--target", str(target)]
    run(
        [*command, *(["--wheel", str(wheel)] if wheel else [])],
        "installing vLLM and torch (is the Python package index reachable?)",
    )
    run([sys.executable, str(folder / "slim.py"), str(target)], "making the packages slim")
