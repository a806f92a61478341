"""The note in /run that tells which checkout's cluster runs and what it changed."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.cluster.layout import REGISTRY


@dataclass(frozen=True)
class Note:
    """A cluster that was started and not yet taken down."""

    state: Path
    fingerprint: str = ""
    """What the cluster was started from; empty until it is up."""
    settings: Mapping[str, str] = field(default_factory=dict)
    tables: tuple[str, ...] = ()


def read(path: Path = REGISTRY) -> Note | None:
    """The note; None where no cluster was started, or the note is damaged."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        return Note(
            Path(content["state"]),
            str(content["fingerprint"]),
            {str(key): str(value) for key, value in content["settings"].items()},
            tuple(map(str, content["tables"])),
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def write(note: Note, path: Path = REGISTRY) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".part")
    partial.write_text(json.dumps({**asdict(note), "state": str(note.state)}), encoding="utf-8")
    partial.replace(path)
