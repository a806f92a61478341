"""Which process of a run gets which tests: those of one group the same.

pytest-xdist 3.8 learns of groups by a suffix that it hangs on to ids, which pytest 9.2 ignores. So
the processes that collect write the groups down, and the one that spreads the tests reads them.
"""

import json
from pathlib import Path

import pytest
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling


def write(path: Path, groups: dict[str, str]) -> None:
    """Keep the groups by test id; every process of a run writes the same."""
    path.parent.mkdir(parents=True, exist_ok=True)
    new = path.with_suffix(f".{id(groups)}")
    new.write_text(json.dumps(groups))
    new.replace(path)


class GroupScheduling(LoadScopeScheduling):
    """Tests of one group stay together and in order; a test without one is its own."""

    def __init__(self, config: pytest.Config, log: Producer, path: Path) -> None:
        super().__init__(config, log)
        self._path = path
        self._groups: dict[str, str] | None = None

    def _split_scope(self, nodeid: str) -> str:
        if self._groups is None:
            self._groups = json.loads(self._path.read_text())
        return self._groups.get(nodeid) or nodeid
