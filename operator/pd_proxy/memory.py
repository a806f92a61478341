"""Whether the process is about to use up the memory that it may have."""

import os
from pathlib import Path
from typing import Final

_LIMITS: Final = (
    Path("/sys/fs/cgroup/memory.max"),
    Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"),
)
_STATM: Final = Path("/proc/self/statm")
_PART: Final = 0.85
"""Of the limit; what is beyond is for the requests that are there already."""
_UNLIMITED: Final = 1 << 60


def limit(files: tuple[Path, ...] = _LIMITS) -> int | None:
    """Bytes that the container may use; None where nothing limits it."""
    for file in files:
        try:
            text = file.read_text().strip()
        except OSError:
            continue
        if text.isdecimal() and int(text) < _UNLIMITED:
            return int(text)
    return None


class Memory:
    """Looks now and then, for looking costs a system call; `scarce` is what it saw last."""

    def __init__(self, most: int | None) -> None:
        self._most = None if most is None else int(most * _PART)
        self.scarce = False

    def look(self) -> None:
        """See how much the process uses."""
        if self._most is not None:
            self.scarce = used() > self._most


def used() -> int:
    """Bytes of the process that are in memory."""
    return int(_STATM.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
