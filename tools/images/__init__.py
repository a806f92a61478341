"""The project's container images: built when their inputs changed, kept by content in the cache."""

import fcntl
import importlib
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tools.images import archive
from tools.images.builder import choose, prepare
from tools.images.making import clear_work, make, references, tag
from tools.images.recipe import RECIPES
from tools.paths import BUILD, CLUSTER
from tools.stages import UserError, say, stage

WHO: Final = "images"
NAMES: Final = tuple(RECIPES)
IN_PODS: Final = ("operator", "proxy", "mooncake", "engine-cpu", "engine-sim")
"""Images that pods of the project run."""

_LIST: Final = BUILD / "images.json"


def build(names: Sequence[str] | None = None) -> dict[str, str]:
    """Build what is not built yet; the references of the images asked for (all without names).

    Writes build/images.json. Raises UserError that says what is missing.
    """
    wanted = list(names) if names else list(NAMES)
    unknown = [name for name in wanted if name not in RECIPES]
    if unknown:
        raise UserError(f"no image is named {unknown[0]!r}; there are {', '.join(NAMES)}")
    builder = choose()
    images = references(builder.debian)
    buildable = [name for name in wanted if images[name].startswith("localhost/")]
    missing = [name for name in buildable if not archive.exists(name, tag(images[name]))]
    if missing:
        with _lock():
            prepare(builder)
            clear_work()
            on_base = any(RECIPES[name].on_base for name in missing)
            base = images["base"]
            if builder.debian and on_base and not builder.has(base):
                if archive.exists("base", tag(base)):
                    with stage(WHO, "taking the base from the cache"):
                        builder.load(archive.path("base", tag(base)))
                elif "base" not in missing:
                    missing.insert(0, "base")
            for name in sorted(missing, key=NAMES.index):
                # Another command may have built it while this one waited for the lock.
                if not archive.exists(name, tag(images[name])):
                    with stage(WHO, f"building {name}"):
                        make(RECIPES[name], builder, images)
    _write_list(images, wanted)
    return {name: images[name] for name in wanted}


def load(names: Sequence[str] | None = None) -> dict[str, str]:
    """Build what is needed and bring it into the cluster's node; the references.

    Without names: the images that the project's pods run. Raises UserError.
    """
    images = build(names or IN_PODS)
    try:
        cluster = importlib.import_module("tests.cluster")  # building alone needs no cluster
    except ImportError as error:
        raise UserError(f"the local cluster's code cannot be loaded: {error}") from error
    present = cluster.image_names()
    current = _loaded()
    for name, image in images.items():
        # The name :dev in the node follows the last import, so the tag alone does not tell.
        if image in present and current.get(name) == image:
            continue
        if not image.startswith("localhost/"):
            continue
        with stage(WHO, f"loading {name} into the cluster"):
            cluster.import_image(archive.path(name, tag(image)))
        current[name] = image
        _write_json(_LOADED, current)
    return images


_LOADED: Final = CLUSTER / "loaded-images.json"


def _loaded() -> dict[str, str]:
    try:
        result: dict[str, str] = json.loads(_LOADED.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    return result


def _write_list(images: dict[str, str], wanted: Sequence[str]) -> None:
    try:
        known: dict[str, str] = json.loads(_LIST.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        known = {}
    new = {**known, **{name: images[name] for name in wanted}}
    if new != known:
        _write_json(_LIST, new)


def _write_json(path: Path, content: dict[str, str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f"{path.name}.{os.getpid()}")
    partial.write_text(json.dumps(content, indent=2, sort_keys=True) + "\n", encoding="utf-8")
    partial.replace(path)


@contextmanager
def _lock() -> Iterator[None]:
    archive.folder().mkdir(parents=True, exist_ok=True)
    with (archive.folder() / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            say(WHO, "waiting for another command that builds images")
            fcntl.flock(file, fcntl.LOCK_EX)
        os.set_inheritable(file.fileno(), True)
        yield
