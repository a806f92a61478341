"""Mounts under a folder: find, remove; and folders removed only when nothing is mounted in them."""

import ctypes
import os
import shutil
from pathlib import Path
from typing import Final

from tools.stages import UserError

_MS_BIND: Final = 4096
_MS_PRIVATE: Final = 1 << 18
_MNT_DETACH: Final = 2
_UMOUNT_NOFOLLOW: Final = 8
_libc: Final = ctypes.CDLL(None, use_errno=True)


def parse(mountinfo: str) -> list[Path]:
    """Mount points in the text of /proc/self/mountinfo, in the order of mounting."""
    return [Path(_unescape(line.split(" ")[4])) for line in mountinfo.splitlines()]


def _unescape(text: str) -> str:
    for code in ("040", "011", "012", "134"):
        text = text.replace(f"\\{code}", chr(int(code, 8)))
    return text


def under(folder: Path) -> list[Path]:
    """What is mounted at or below a folder, in the order of mounting."""
    points = parse(Path("/proc/self/mountinfo").read_text(encoding="utf-8"))
    return [point for point in points if point.is_relative_to(folder)]


def bind(source: Path, target: Path) -> None:
    """Show a folder at another place as well; later mounts below it show there only."""
    source.mkdir(parents=True, exist_ok=True)
    target.mkdir(parents=True, exist_ok=True)
    for flags in (_MS_BIND, _MS_PRIVATE):
        if _libc.mount(bytes(source), bytes(target), None, flags, None) != 0:
            why = os.strerror(ctypes.get_errno())
            raise UserError(
                f"cannot mount {target} ({why}); in a container this needs the privilege to mount"
            )


def unmount(folder: Path) -> None:
    """Unmount everything at and below a folder, the last mounted first."""
    for point in reversed(under(folder)):
        _libc.umount2(bytes(point), _MNT_DETACH | _UMOUNT_NOFOLLOW)


def remove(folder: Path) -> None:
    """Remove a folder with its content; UserError where something is still mounted below it."""
    unmount(folder)
    left = under(folder)
    if left:
        raise UserError(f"{left[-1]} cannot be unmounted, so {folder} stays; see `mount`")
    shutil.rmtree(folder, ignore_errors=True)
