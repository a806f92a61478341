"""Building one image: its context, the build, its archive."""

import platform
import shutil
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tools.images import archive, python
from tools.images.builder import Builder, run
from tools.images.recipe import PYTHON_BASE, RECIPES, Recipe, digest, files, reference
from tools.paths import REPOSITORY
from tools.stages import UserError

_SUITE: Final = "bookworm"
_CUDA_SPACE: Final = 12 << 30
"""Bytes more where torch may have to come from the Python package index, a build for CUDA."""
_BUSYBOX: Final = Path("/bin/busybox")


def references(debian: bool, root: Path = REPOSITORY) -> dict[str, str]:
    """The reference of every image as the checkout is now."""
    base = PYTHON_BASE
    result: dict[str, str] = {}
    for name, recipe in RECIPES.items():
        if name == "base" and not debian:
            result[name] = base
            continue
        result[name] = reference(name, digest(root, recipe.sources, _facts(recipe, base)))
        if name == "base":
            base = result[name]
    return result


def _facts(recipe: Recipe, base: str) -> list[str]:
    facts = [platform.machine()]
    if recipe.on_base:
        facts.append(base)
    if recipe.packages:
        facts += python.options()
    if recipe.name == "engine-cpu":
        facts.append(python.torch_fact())
    return facts


def tag(image: str) -> str:
    """The tag of a reference."""
    return image.rpartition(":")[2]


def make(recipe: Recipe, builder: Builder, images: Mapping[str, str]) -> None:
    """Build an image and leave its archive in the cache.

    Raises UserError where there is no space or a step fails; nothing half-made stays.
    """
    image = images[recipe.name]
    _check_space(recipe)
    with _work_folder() as work:
        context = work / "context"
        _copy_sources(recipe, context)
        if digest(context, recipe.sources, _facts(recipe, images["base"])) != tag(image):
            raise UserError(f"sources of the image {recipe.name} changed meanwhile; run it again")
        base = None
        if recipe.name == "base":
            _debian(context)
        elif recipe.name == "pause":
            base = _busybox(context) if builder.debian else None
        else:
            base = images["base"] if builder.debian else None
            _packages(recipe, context)
        dockerfile = f"images/{recipe.name}/Dockerfile"
        where = context / "images" / "base" if recipe.name == "base" else context
        builder.build(where, str((context / dockerfile).relative_to(where)), image, base)
        done = work / "image.tar"
        builder.save(image, reference(recipe.name, "dev"), done)
        done.replace(archive.path(recipe.name, tag(image)))
    if recipe.name != "base":
        builder.forget(image)
    for old in archive.prune(recipe.name):
        builder.forget(reference(recipe.name, old))


def clear_work() -> None:
    """Remove what killed builds left."""
    for left in archive.folder().glob("work-*"):
        shutil.rmtree(left, ignore_errors=True)


@contextmanager
def _work_folder() -> Iterator[Path]:
    work = Path(tempfile.mkdtemp(prefix="work-", dir=archive.folder()))
    try:
        yield work
    finally:
        shutil.rmtree(work, ignore_errors=True)


def _check_space(recipe: Recipe) -> None:
    free = shutil.disk_usage(archive.folder()).free
    needed = recipe.space
    if recipe.name == "engine-cpu" and python.torch_wheel() is None:
        needed += _CUDA_SPACE
    if free < needed:
        raise UserError(
            f"{archive.folder()} has {free / 2**30:.1f} GiB free, the image {recipe.name} needs "
            f"{needed / 2**30:.1f} GiB to build; free some, or set XDG_CACHE_HOME elsewhere"
        )


def _copy_sources(recipe: Recipe, context: Path) -> None:
    for path in files(REPOSITORY, recipe.sources):
        copy = context / path
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(REPOSITORY / path, copy)


def _packages(recipe: Recipe, context: Path) -> None:
    prepared = context / "prepared"
    if recipe.name == "engine-cpu":
        python.install_engine(context, prepared)
    elif recipe.packages:
        python.install(context / "images" / recipe.name / "requirements.txt", prepared)


def _busybox(context: Path) -> str:
    shutil.copy2(_BUSYBOX, context / "busybox")
    return "scratch"


def _debian(context: Path) -> None:
    folder = context / "images" / "base"
    lines = (folder / "packages.txt").read_text(encoding="utf-8").splitlines()
    packages = [line for line in lines if line and not line.startswith("#")]
    customize = folder / "customize.sh"
    run(
        [
            *("mmdebstrap", "--quiet", "--variant=essential", f"--include={','.join(packages)}"),
            f'--customize-hook=sh {customize} "$1"',
            *(_SUITE, str(folder / "base.tar")),
        ],
        "making the base from Debian's packages (is Debian's archive reachable?)",
    )
