"""Python packages for an image, resolved outside of it: wheels for its Python and its platform."""

import os
import platform
import sys
from pathlib import Path
from typing import Final

from tools.images.builder import run
from tools.paths import REPOSITORY, uv
from tools.stages import UserError

VERSION: Final = "3.11"
TORCH: Final = "2.13.0"
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
    """Install a complete list of packages, hashes checked where the list has them.

    Raises UserError where the index cannot be reached or has not what is asked for.
    """
    run(
        [
            *(str(uv()), "pip", "install", "--quiet", "--no-deps", "--only-binary", ":all:"),
            *("--python", sys.executable, *options(), "--target", str(target)),
            *("-r", str(requirements)),
        ],
        f"installing {requirements.relative_to(requirements.parents[2])} "
        "(is the Python package index reachable?)",
    )


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
