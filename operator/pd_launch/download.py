"""Brings repositories of the Hugging Face hub into a shared volume, once each.

What engines load is a link, made when the repository is whole: who finds it needs no hub. The link
leads to one commit, so that pods that start later load the same weights, whatever the branch says
by then.
"""

from __future__ import annotations

import importlib
import os
import re
import secrets
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Callable

from pd_launch.log import say

FAILED = 1
REFUSED = 3
"""Exit code where trying again cannot help."""

_REFUSALS = frozenset(
    {"GatedRepoError", "RepositoryNotFoundError", "RevisionNotFoundError", "HFValidationError"}
)
"""Exceptions of huggingface_hub, by name: it is the engine image's own."""

_MAX_TEXT = 500


class DownloadError(Exception):
    """Why a repository is not there; `str()` is one line, without secrets."""

    def __init__(self, message: str, code: int) -> None:
        super().__init__(message)
        self.code = code


@dataclass(frozen=True)
class Repository:
    """What to fetch, and where the link to it is made."""

    link: Path
    name: str
    revision: str | None
    """Branch, tag or commit; None for the default branch."""


@dataclass(frozen=True)
class Snapshot:
    """One commit of a repository on the volume."""

    folder: Path
    files: tuple[str, ...]
    """All that must be in it."""


Fetch = Callable[[Repository, Sequence[str]], Snapshot]
"""From a repository and patterns of files that are left out; raises what it likes."""


def repository(text: str) -> Repository:
    """The repository in `LINK=NAME[@REVISION]`; ValueError for another text."""
    link, equals, rest = text.partition("=")
    name, at, revision = rest.partition("@")
    if not (link and equals and name) or (at and not revision):
        raise ValueError(f"{text!r} is not LINK=NAME[@REVISION]")
    return Repository(Path(link), name, revision or None)


def download(wanted: Iterable[Repository], ignored: Sequence[str], fetch: Fetch) -> None:
    """Fetch what is not there yet and link it; DownloadError at the first that fails."""
    for each in wanted:
        if each.link.is_dir():
            say(f"{each.name} is there already")
            continue
        say(f"downloads {each.name}")
        try:
            found = fetch(each, ignored)
            missing = [name for name in found.files if not (found.folder / name).exists()]
            if missing:
                # The hub's library may answer with what an earlier run left unfinished.
                raise DownloadError(
                    f"{each.name}: {len(missing)} of {len(found.files)} files are missing, such as"
                    f" {missing[0][:100]}",
                    FAILED,
                )
            _link(each.link, found.folder)
        except DownloadError:
            raise
        except Exception as error:
            raise _told(each.name, error) from error
        say(f"{each.name} is whole: {len(found.files)} files")


def from_hub(wanted: Repository, ignored: Sequence[str]) -> Snapshot:
    """Fetch from the hub, with the library in the engine's image, into its own cache."""
    try:
        hub = importlib.import_module("huggingface_hub")
        utils = importlib.import_module("huggingface_hub.utils")
    except ImportError as error:
        raise DownloadError("the engine's image has no huggingface_hub", REFUSED) from error
    info = hub.HfApi().model_info(wanted.name, revision=wanted.revision)
    names = [each.rfilename for each in info.siblings or ()]
    files = tuple(utils.filter_repo_objects(names, ignore_patterns=list(ignored) or None))
    folder = hub.snapshot_download(
        wanted.name, revision=info.sha, ignore_patterns=list(ignored) or None
    )
    return Snapshot(Path(folder), files)


def _link(link: Path, folder: Path) -> None:
    link.parent.mkdir(parents=True, exist_ok=True)
    # In one step, so that nobody finds half of it; relative, so that any mount of the volume does.
    made = link.with_name(f".{link.name}.{secrets.token_hex(4)}")
    os.symlink(os.path.relpath(folder, link.parent), made)
    os.replace(made, link)


def _told(name: str, error: Exception) -> DownloadError:
    kinds = {kind.__name__ for kind in type(error).__mro__}
    status = _status(error)
    if "RevisionNotFoundError" in kinds:
        return DownloadError(f"{name}: the hub has no such revision", REFUSED)
    if kinds & _REFUSALS or status in (401, 403):
        return DownloadError(
            f"{name}: the hub refuses it ({type(error).__name__}): there is no such repository, or"
            " the token of tokenSecret may not read it",
            REFUSED,
        )
    answer = f", status {status}" if status else ""
    return DownloadError(f"{name}: {type(error).__name__}{answer}: {_harmless(error)}", FAILED)


def _status(error: BaseException | None) -> int | None:
    """The HTTP status behind an error."""
    while error is not None:
        status = getattr(getattr(error, "response", None), "status_code", None)
        if isinstance(status, int):
            return status
        error = error.__cause__
    return None


def _harmless(error: Exception) -> str:
    """The error's first line, without the queries of URLs, which may be signed."""
    lines = str(error).strip().splitlines()
    return re.sub(r"\?\S+", "?...", lines[0])[:_MAX_TEXT] if lines else ""
